// A captured graph: its tasks in the order of capture, the streams that took part, and its task groups.
// The names follow hicann/runtime src/runtime/feature/aclgraph (CaptureModel, TaskGroup, CondHandle).
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/acl.h"
#include "runtime/event.h"
#include "runtime/stream.h"

namespace sim {

// What a user's stream is while it is captured. Each takes one stream from the driver (--streams).
struct CaptureStream {
  int id = 0;
  Stream* user = nullptr;
  Model* model = nullptr;
  bool origin = false;
  TaskRef last;
  std::shared_ptr<CaptureEvent> last_event;  // set while `last` is an event record
  TaskGroup* open_group = nullptr;
};

struct TaskGroup {
  Model* model = nullptr;
  std::vector<TaskRef> tasks;
  bool updating = false;
  size_t next = 0;
};

struct Model {
  enum class Status { kNew, kCapturing, kReady };
  uint32_t id = 0;
  int device = 0;
  Status status = Status::kNew;
  bool invalid = false;
  int mode = kGlobal;
  uint32_t thread = 0;
  std::vector<std::unique_ptr<CaptureStream>> streams;
  std::vector<TaskRef> tasks;
  std::map<const Task*, std::shared_ptr<CaptureEvent>> waits;  // which record each wait task waits for
  std::vector<std::unique_ptr<TaskGroup>> groups;
  std::set<CaptureStream*> open_groups;
  int group_error = kSuccess;
  int running = 0;          // replays queued or under way
  Model* parent = nullptr;  // of a branch of a conditional node
  std::vector<Model*> branches;

  bool is_capturing() const { return status == Status::kCapturing; }
  // Tasks in an order that the device may choose; with --defer a forked stream runs as late as its events allow.
  std::vector<TaskRef> replay_order() const;
};

// Adds a task to the capture of a stream.
int record_task(Stream* stream, const TaskRef& task);
// Gives the next task of the group under update its new arguments.
int update_task(Stream* stream, const TaskRef& task);
// A stream that waits for an event of a capture becomes part of it.
int join_capture(Stream* stream, Model* model);
void forget_groups_of(Model* model);
Model* create_model(int device, Model* parent);
bool model_exists(const Model* model);

}  // namespace sim
