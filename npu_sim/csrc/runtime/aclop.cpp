// The older "aclop" interface. The simulator has no kernels behind it; it names the operator in the error.
#include <string>

#include "core/acl.h"
#include "core/call.h"
#include "messages/messages.h"

using namespace sim;

namespace {

int handle;  // descriptors, buffers and attributes carry nothing

int no_kernel(const char* op) {
  return report_operator(kOpNotFound, "EZ9999",
                         std::string("npu_sim has no kernel for operator ") + op +
                             ": no aclnn function was found and the aclop path is not simulated");
}

}  // namespace

API int aclopCompileAndExecute(const char* op, ...) {
  ENTER("%s", op);
  return no_kernel(op);
}
API int aclopCompileAndExecuteV2(const char* op, ...) {
  ENTER("%s", op);
  return no_kernel(op);
}
API int aclopExecuteV2(const char* op, ...) {
  ENTER("%s", op);
  return no_kernel(op);
}
API int aclSetCompileopt(int, const char*) { return kSuccess; }
API size_t aclGetCompileoptSize(int) { return 256; }
API int aclGetCompileopt(int, char* value, size_t) {
  if (value) value[0] = 0;
  return kSuccess;
}
API int aclopSetCompileFlag(int) { return kSuccess; }
API void* aclCreateTensorDesc(int, int, const int64_t*, int) { return &handle; }
API void aclDestroyTensorDesc(const void*) {}
API void* aclCreateDataBuffer(void*, size_t) { return &handle; }
API int aclDestroyDataBuffer(const void*) { return kSuccess; }
API void* aclopCreateAttr() { return &handle; }
API void aclopDestroyAttr(const void*) {}
API int aclopSetAttrBool(void*, ...) { return kSuccess; }
API int aclopSetAttrInt(void*, ...) { return kSuccess; }
API int aclopSetAttrFloat(void*, ...) { return kSuccess; }
API int aclopSetAttrString(void*, ...) { return kSuccess; }
API int aclopSetAttrDataType(void*, ...) { return kSuccess; }
API int aclopSetAttrListInt(void*, ...) { return kSuccess; }
API int aclopSetAttrListBool(void*, ...) { return kSuccess; }
API int aclopSetAttrListFloat(void*, ...) { return kSuccess; }
API int aclopSetAttrListListInt(void*, ...) { return kSuccess; }
API int aclSetTensorFormat(void*, int) { return kSuccess; }
API int aclSetTensorShape(void*, int, const int64_t*) { return kSuccess; }
API void aclSetTensorDescName(void*, const char*) {}
API int aclSetTensorPlaceMent(void*, int) { return kSuccess; }
API int aclGetTensorDescType(const void*) { return 0; }
API int aclGetTensorDescFormat(const void*) { return 2; }
API size_t aclGetTensorDescNumDims(const void*) { return 0; }
API int aclGetTensorDescDimV2(const void*, size_t, int64_t* size) {
  *size = 0;
  return kSuccess;
}
