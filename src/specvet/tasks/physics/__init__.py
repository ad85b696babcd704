"""Physics problems: a safe grammar for expressions (`grammar`), typed answers, their reading and matching."""
