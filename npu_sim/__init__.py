"""A stand-in for the CANN libraries: the real torch_npu captures and replays on a machine without an NPU."""
