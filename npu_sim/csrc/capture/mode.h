// Capture modes of the context and of the calling thread.
#pragma once
#include "core/acl.h"

namespace sim {

void enter_capture_mode(int mode);
void leave_capture_mode(int mode);

}  // namespace sim
