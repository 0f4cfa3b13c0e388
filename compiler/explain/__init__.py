"""A gang's facts and repairs in the user's own words, with their source lines."""
