"""The optimizer at work on a program: statistics that follow its windows, plans for each delta, sub-results that are weighed and made."""
