"""Groups of subcommands of `quantgate`, one file each. Heavy packages are imported inside the commands."""
