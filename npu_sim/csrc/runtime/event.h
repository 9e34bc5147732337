// Events, as ordering between streams.
#pragma once
#include <memory>
#include <set>

#include "runtime/stream.h"

namespace sim {

// The event that stands for a user's event inside one capture.
struct CaptureEvent {
  Model* model = nullptr;
  CaptureStream* recorder = nullptr;
  bool recorded = false;
  TaskRef record;
  std::set<CaptureStream*> waiters;
  std::string handle;
};

// A value that external events are made of where aclrtValueWait is missing (CANN before 8.5).
struct ExternalValue {
  bool set = false;
};

struct Event {
  int id = 0;
  uint32_t flag = 0;
  std::shared_ptr<Signal> signal;          // last record outside a capture
  std::shared_ptr<CaptureEvent> captured;  // last record inside a capture
  std::shared_ptr<ExternalValue> external;
  double time_ms = 0;

  bool is_external() const { return flag & 0x20; }  // ACL_EVENT_EXTERNAL
};

}  // namespace sim
