"""The diagnosis engine: from a pasted report to the record of design section 5.

The path of a report: reading (clean lines) → tracebacks and log_errors (failures) → first_cause (one failure, the
echoes set aside) → classification (stage, layer, owner) → record (patterns, codes, cases, what is missing) →
report (text for people).
"""
