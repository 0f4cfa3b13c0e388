"""Types of single fields: quantity, duration, label selector, regular expression."""
