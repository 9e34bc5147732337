"""The diagnosis engine: from a pasted report to the record of design section 5.

The path of a report: bounds and reading (clean lines) → tracebacks and error_lines (failures) → first_cause (one
failure, the echoes set aside) → classification (stage, layer, owner) → located (with patterns and what is missing) →
record (places in sources, releases, later changes, codes, cases) → report (text for people).
"""
