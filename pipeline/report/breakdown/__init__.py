"""The parts of the report below the table: from evidence to lines and cells, one file per topic."""
