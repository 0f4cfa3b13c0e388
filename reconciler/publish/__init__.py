"""What people and machines learn: status, events, metrics and the pages over HTTP."""
