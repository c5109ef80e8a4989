"""The benchmark harness: seeded data generators, converted real data sets, scenarios and studies."""
