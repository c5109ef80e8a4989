"""Physical operators over rows with validity intervals: joins, filters, aggregates, construct, output."""
