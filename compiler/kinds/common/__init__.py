"""What the job kinds have in common."""
