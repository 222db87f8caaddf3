// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;

namespace {

struct Row {
  std::string text, cause;
  bool lost_peer, vain_wait, nccl;
};

// The texts have the forms of c10d 2.11, NCCL 2.28, gloo and the CUDA runtime; a message of c10
// ends with its backtrace.
const std::string kBacktrace =
    "\nException raised from checkForNCCLErrorsInternal at "
    "/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2363 (most recent call first):"
    "\nframe #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x80 (0x7f in libc10.so)"
    "\nframe #1: <unknown function> + 0x1000 (0x7f in libtorch_cuda.so)\n";

std::string nccl(const std::string& generic, const std::string& rest) {
  return "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, " + generic +
         ", NCCL version 2.28.9\n" + rest + kBacktrace;
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {nccl("unhandled system error (run with NCCL_DEBUG=INFO for details)",
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or "
            "device error. \nLast error:\nsocketProgress: Connection closed by remote peer "
            "node2<40123>"),
       "socketProgress: Connection closed by remote peer node2<40123> (NCCL 2.28.9: unhandled "
       "system error)",
       true,
       false,
       true},
      {nccl("remote process exited or there was a network error",
            "ncclRemoteError: A call failed possibly due to a network error or a remote process "
            "exiting prematurely.\nLast error:\nNET/IB: Got completion from peer 10.0.0.2<40123> "
            "with status=12 opcode=0 len=0 vendor err 129 (Recv)"),
       "NET/IB: Got completion from peer 10.0.0.2<40123> with status=12 opcode=0 len=0 vendor err "
       "129 (Recv) (NCCL 2.28.9: remote process exited or there was a network error)",
       true,
       false,
       true},
      {nccl("invalid usage (run with NCCL_DEBUG=WARN for details)",
            "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
            "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000"),
       "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000 (NCCL 2.28.9: invalid "
       "usage)",
       false,
       false,
       true},
      {nccl("unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
            "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 "
            "'out of memory'"),
       "Cuda failure 2 'out of memory' (NCCL 2.28.9: unhandled cuda error)",
       false,
       false,
       true},
      {nccl("internal error - please report this issue to the NCCL developers",
            "ncclInternalError: Internal check failed.\nLast error:\n"),
       "ncclInternalError: Internal check failed. (NCCL 2.28.9: internal error - please report "
       "this issue to the NCCL developers)",
       false,
       false,
       true},
      {"[PG ID 0 PG GUID 0 Rank 1] Process group watchdog thread terminated with exception: [Rank "
       "1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
       "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600021 milliseconds before timing "
       "out." +
           kBacktrace,
       "[PG ID 0 PG GUID 0 Rank 1] Process group watchdog thread terminated with exception: [Rank "
       "1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
       "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.",
       false,
       true,
       true},
      {"[PG ID 0 PG GUID 0 Rank 1] Process group watchdog thread terminated with exception: " +
           nccl(
               "remote process exited or there was a network error",
               "ncclRemoteError: A call failed possibly due to a network error or a remote process "
               "exiting prematurely.\nLast error:\nsocketPollConnect: connect to node1<40123> "
               "returned Connection refused, exceeded error retry count after 35 attempts"),
       "socketPollConnect: connect to node1<40123> returned Connection refused, exceeded error "
       "retry count after 35 attempts ([PG ID 0 PG GUID 0 Rank 1] Process group watchdog thread "
       "terminated with exception: NCCL 2.28.9: remote process exited or there was a network "
       "error)",
       true,
       false,
       true},
      {"[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
       "key-value "
       "store by key '0', but store->get('0') got error: Connection reset by peer\nThis may "
       "indicate a possible application crash on rank 0 or a network set up issue." +
           kBacktrace,
       "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
       "key-value "
       "store by key '0', but store->get('0') got error: Connection reset by peer",
       true,
       false,
       true},
      {"[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
       "[127.0.0.1]:4242",
       "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
       "[127.0.0.1]:4242",
       true,
       false,
       false},
      {"[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:84] Timed out waiting 60000ms "
       "for "
       "recv operation to complete",
       "[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:84] Timed out waiting 60000ms "
       "for "
       "recv operation to complete",
       false,
       true,
       false},
      {"wait timeout after 60000ms, keys: /gantrain/device/3" + kBacktrace,
       "wait timeout after 60000ms, keys: /gantrain/device/3",
       false,
       true,
       false},
      {"CUDA error: an illegal memory access was encountered\nSearch for `cudaErrorIllegalAddress' "
       "in https://docs.nvidia.com/cuda/ for more information.\nCUDA kernel errors might be "
       "asynchronously reported at some other API call, so the stacktrace below might be "
       "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with "
       "`TORCH_USE_CUDA_DSA` to enable device-side assertions.\n" +
           kBacktrace,
       "CUDA error: an illegal memory access was encountered",
       false,
       false,
       false},
      {"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of "
       "which 1.06 GiB is free." +
           kBacktrace,
       "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of "
       "which 1.06 GiB is free.",
       false,
       false,
       false},
      {"photo.png is broken", "photo.png is broken", false, false, false},
      {"", "", false, false, false},
  };
  return rows;
}

}  // namespace

TEST_CASE("TheCauseIsTheLineThatNamesItAndVictimsAreTold") {
  for (const Row& row : table()) {
    CAPTURE(row.text);
    CHECK(cause_line(row.text) == row.cause);
    CHECK(tells_of_lost_peer(row.text) == row.lost_peer);
    CHECK(tells_of_vain_wait(row.text) == row.vain_wait);
    CHECK(tells_of_nccl(row.text) == row.nccl);
  }
}

TEST_CASE("EveryLineOfNcclsLastErrorIsKeptAndNoBacktrace") {
  const std::vector<std::string> lines =
      telling_lines(nccl("unhandled system error (run with NCCL_DEBUG=INFO for details)",
                         "ncclSystemError: System call (e.g. socket, malloc) or external library "
                         "call failed or device error. \nLast error:\nError while creating shared "
                         "memory segment /dev/shm/nccl-AbCdEf (size 33030528), error: No space "
                         "left on device (28)\ninit.cc:1234 -> 2"));
  CHECK(lines ==
        std::vector<std::string>{"Error while creating shared memory segment /dev/shm/nccl-AbCdEf "
                                 "(size 33030528), error: No space left on device (28)",
                                 "init.cc:1234 -> 2",
                                 "NCCL 2.28.9: unhandled system error"});
  CHECK(telling_lines("a\n\n  b\nframe #0: c").size() == 2);
}
