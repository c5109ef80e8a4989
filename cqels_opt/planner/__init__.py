"""The optimizer at work on a compiled query: statistics that follow its windows, a plan for each delta source, view selection."""
