"""The commands of `spinney`, one module each; everything heavy is imported when a command runs."""
