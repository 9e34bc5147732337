// Device and pinned host memory: which addresses are alive, so that a kernel that reads a freed one faults as on a
// device instead of reading the simulator's own heap.
#pragma once
#include <cstddef>
#include <string>

namespace sim {

// True when [address, address + bytes) lies in one live device allocation or mapped segment.
bool is_device_range(const void* address, size_t bytes);
bool is_pinned(const void* address);

}  // namespace sim
