// SPDX-License-Identifier: Apache-2.0
// A connection between two launchers: what one reads from a stranger, and from a peer that has
// proved the secret. An input is a byte for the side, the stranger's bytes up to 0x1e, the peer's.
#include "launch/nodes/node_link.h"

#include <sys/socket.h>

#include "fuzz/fuzz_input.h"

namespace {

using namespace gantrain;

// The wire reads what is written to the other end.
struct Connection {
  UniqueFd far;
  NodeWire wire;

  Connection(bool is_node_0, const char* secret) {
    int fds[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "no sockets");
    far = UniqueFd(fds[1]);
    set_nonblocking(far.get());
    wire = NodeWire(UniqueFd(fds[0]), is_node_0, secret);
  }
  std::vector<NodeMessage> read(std::string_view bytes) {
    if (!bytes.empty()) ::send(far.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return wire.receive();
  }
  std::string said() const {
    std::string text;
    read_from(far.get(), text, 1);
    return text;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  InputReader input(text_of_input(data, size));
  const bool is_node_0 = input.byte() % 2 == 0;
  Connection stranger(is_node_0, "the secret of the job");
  const std::string_view strange = input.until('\x1e');
  const size_t half = strange.size() / 2;
  for (const std::string_view part : {strange.substr(0, half), strange.substr(half)})
    require(stranger.read(part).empty(), "a stranger's message");
  require(!stranger.wire.proved(), "a stranger's proof");

  Connection one(is_node_0, "the secret of the job");
  Connection other(!is_node_0, "the secret of the job");
  for (int turn = 0; turn < 2; ++turn) {
    one.read(other.said());
    other.read(one.said());
  }
  require(one.wire.proved() && other.wire.proved(), "a proof that is not taken");
  for (const NodeMessage& message : one.read(input.rest())) {
    const auto again = decode(encode(message));
    require(again.has_value() && encode(*again) == encode(message), "a message that changes");
  }
  return 0;
}
