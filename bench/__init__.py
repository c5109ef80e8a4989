"""The harness: seeded worlds, lifts of real data, and what is measured over them."""
