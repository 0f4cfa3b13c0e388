"""The mathematics: sets, variables, constraints and objectives of each model, with the letters of
docs/develop/model.md."""
