"""A gang's facts and repairs in the user's own words, with the lines that they come from."""
