// Collectives are not simulated. Only the configuration calls that torch_npu makes on a single device succeed.
#include "core/acl.h"
#include "core/call.h"

using namespace sim;

API int HcclSetConfig(int config, int64_t) {
  ENTER("config=%d", config);
  return kSuccess;
}
API int HcclGetConfig(int config, int64_t* value) {
  ENTER("config=%d", config);
  *value = 0;
  return kSuccess;
}
