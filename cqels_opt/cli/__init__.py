"""The command line: arguments, requests, commands, console. The entry point is :func:`cqels_opt.cli.main.main`."""
