"""Views: the outcome as data (`data`), and the data as text for people (`text`) or machines (`machine`)."""
