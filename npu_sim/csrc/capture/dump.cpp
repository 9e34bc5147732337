// The JSON dump of a graph, in the trace-event layout that torch_npu aligns and chrome://tracing shows.
// Layout: hicann/runtime src/runtime/core/src/stream/stream.cc DebugJsonPrintForModelStm; durations: same file.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "capture/model.h"
#include "core/call.h"
#include "messages/messages.h"

namespace sim {
namespace {

constexpr double kTaskLength = 10.0, kTaskStep = 11.0;  // any positive length is valid: the dump is no measurement

std::string event_name(const Task& task) { return task.handle.empty() ? task.name : task.name + "_" + task.handle; }

const char* task_type(const Task& task) {
  if (task.is_kernel) return "KERNEL_AIVEC";
  return task.name.c_str();
}

void print_stream(FILE* file, const Model& model, const CaptureStream& stream, bool* first) {
  double start = 0;
  for (const TaskRef& task : model.tasks) {
    if (task->capture_stream != stream.id) continue;
    fprintf(file,
            "%s{\"name\": \"%s\", \"pid\": \"%d aclGraph\", \"tid\": \"stream%d\", \"ts\": %.1f, \"dur\": %.1f, "
            "\"ph\": \"X\", \"args\": {\"Model Id\": %u, \"Stream Id\": %d, \"Task Id\": %d, \"Task Type\": \"%s\"}}",
            *first ? "" : ",\n", event_name(*task).c_str(), getpid(), stream.id, start, kTaskLength, model.id,
            stream.id, task->index, task_type(*task));
    *first = false;
    start += kTaskStep;
  }
}

}  // namespace
}  // namespace sim

using namespace sim;

API int aclmdlRIDebugJsonPrint(void* handle, const char* path, uint32_t flags) {
  ENTER("model=%p path=%s flags=%u", handle, path, flags);
  FILE* file = fopen(path, "w");
  if (!file)
    // hicann/runtime src/runtime/feature/aclgraph/model_aclgraph.cc ModelDebugJsonPrint
    return refuse({kInvalidParam, "EE1011", "Exporting the model running instance information in JSON format",
                   "Failed to open the JSON file path", "", "rtModelDebugJsonPrint", "debug json print failed", ""});
  auto lock = lock_engine();
  const Model& model = *static_cast<Model*>(handle);
  bool first = true;
  fprintf(file, "[\n");
  for (auto& stream : model.streams) print_stream(file, model, *stream, &first);
  fprintf(file, "\n]\n");
  fclose(file);
  return kSuccess;
}

API int aclmdlRIDebugPrint(void* model) {
  ENTER("model=%p", model);
  return kSuccess;
}
