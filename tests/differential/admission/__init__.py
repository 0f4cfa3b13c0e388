"""Objects and single changes of them, judged by gangplan's check and by the real API server."""
