"""The durable state: tables, migrations, one writer, one leader."""
