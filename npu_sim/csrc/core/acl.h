// What the CANN headers would give: handle types, the public error codes that the simulator returns, and how a
// function is exported. Codes: hicann/runtime include/external/acl/error_codes/rt_error_codes.h and acl_base_rt.h.
#pragma once
#include <cstddef>
#include <cstdint>

#define API extern "C" __attribute__((visibility("default")))

namespace sim {

enum Code : int {
  kSuccess = 0,
  kInvalidParam = 107000,
  kInvalidDevice = 107001,
  kContextNull = 107002,
  kStreamContext = 107003,
  kInvalidHandle = 107017,
  kWaitTimeout = 107019,
  kCaptureDependency = 107024,  // also the public face of the internal "isolation" code
  kStreamUnjoined = 107025,
  kModelCaptured = 107026,
  kStreamCaptured = 107027,
  kEventCaptured = 107028,
  kStreamNotCaptured = 107029,
  kCaptureMode = 107030,
  kCaptureImplicit = 107031,
  kCaptureConflict = 107032,
  kTaskGroupStatus = 107033,
  kTaskGroupInterrupted = 107034,
  kCaptureUnmatched = 107036,
  kModelRunning = 107037,
  kCaptureWrongThread = 107038,
  kCaptureModeBlocksAsync = 107041,
  kSubGraphCapturing = 107045,
  kNotSupported = 207000,
  kMemoryAllocation = 207001,
  kResourceAllocFail = 207005,
  kNoStreamResource = 207008,
  kTaskTypeNotSupported = 507009,
  kInternal = 507000,
  kVectorCoreException = 507035,
  kStreamSyncTimeout = 507046,
  kCaptureInvalidated = 507903,
  kOpNotFound = 500001,
  kOpArgument = 161002,
};

// aclDataType values that torch_npu passes (acl_base.h).
enum DataType : int {
  kFloat = 0,
  kFloat16 = 1,
  kInt8 = 2,
  kInt32 = 3,
  kUInt8 = 4,
  kInt16 = 6,
  kUInt16 = 7,
  kUInt32 = 8,
  kInt64 = 9,
  kUInt64 = 10,
  kDouble = 11,
  kBool = 12,
  kComplex64 = 16,
  kComplex128 = 17,
  kBFloat16 = 27,
};

enum CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2, kNoCapture = 3 };
enum CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };
enum MemcpyKind : int { kHostToHost = 0, kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3, kDefaultCopy = 4 };

}  // namespace sim
