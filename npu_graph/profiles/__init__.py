"""Ascend profiles (torch_npu profiler, msprof): read, judged and compared, for graph mode against eager."""
