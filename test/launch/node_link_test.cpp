// SPDX-License-Identifier: Apache-2.0
// Connections between launchers, and what a stranger at the other end can do.
#include "launch/nodes/node_link.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "launch/where/network.h"
#include "launch_helper.h"
#include "support/catch.h"
#include "support/reserved_port.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/text.h"

namespace gantrain {

namespace {

using Word = NodeMessage::Word;

const std::string kSecret = "a secret of this job";

struct Ends {
  UniqueFd one, other;
};

Ends connected() {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// The launchers' side of a connection, and a stranger's.
struct Stranger {
  UniqueFd fd;
  NodeWire wire;

  explicit Stranger(bool at_node_0, const std::string& secret = kSecret) {
    Ends ends = connected();
    fd = std::move(ends.one);
    set_nonblocking(fd.get());
    wire = NodeWire(std::move(ends.other), at_node_0, secret);
  }
  // What the launcher reads of it as messages.
  size_t say(const std::string& text) {
    ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);  // it may have closed already
    return wire.receive().size();
  }
  std::string hear() {
    std::string text;
    read_from(fd.get(), text, 1);
    return text;
  }
};

// Says what there is to say, in turns, until both sides are content or one has closed.
void talk(NodeWire& one, NodeWire& other) {
  for (int turn = 0; turn < 3; ++turn) {
    CHECK(one.receive().empty());
    CHECK(other.receive().empty());
  }
}

std::string greeting(int version) {
  return "gantrain-node " + std::to_string(version) + " 00112233445566778899aabbccddeeff\n";
}

const std::string kHello = encode({.word = Word::kHello, .place = {.node = 1, .nodes = 2}});

}  // namespace

TEST_CASE("LaunchersThatKnowTheSecretHearEachOther") {
  const std::string secret = GENERATE("a secret of this job", "");
  Ends ends = connected();
  NodeWire first(std::move(ends.one), true, secret);
  NodeWire second(std::move(ends.other), false, secret);
  talk(first, second);
  REQUIRE(first.proved());
  REQUIRE(second.proved());
  second.send({.word = Word::kHello});
  first.send({.word = Word::kStart});
  REQUIRE(first.receive().size() == 1);
  REQUIRE(second.receive().size() == 1);
}

// A node 0 says what it has to say in the same packet as its proof.
TEST_CASE("WhatComesWithTheProofIsHeard") {
  Listener listener = listen_on(0, kLoopback);
  std::thread node_0([&] {
    UniqueFd fd(::accept(listener.socket.get(), nullptr, nullptr));
    std::string greeting_of_node(49, '\0');  // and the end of its line
    ::recv(fd.get(), greeting_of_node.data(), greeting_of_node.size(), MSG_WAITALL);
    greeting_of_node.pop_back();
    const std::string own = trim(greeting(4));
    const std::string said = own + "\n" +
                             hmac_sha256(kSecret, "node 0\n" + own + "\n" + greeting_of_node) +
                             "\n" + encode({.word = Word::kRefused, .text = "no"});
    ::send(fd.get(), said.data(), said.size(), MSG_NOSIGNAL);
    char byte = 0;
    while (::recv(fd.get(), &byte, 1, 0) == 1) {
    }
  });
  World world;
  world.ranks.node_rank = 1;
  world.ranks.nodes = 2;
  std::vector<NodeEvent> heard;
  {
    NodeLink link(world, {}, {}, kSecret, "");
    std::string problem;
    CHECK(link.connect({.port = listener.port}, problem));
    CHECK(problem.empty());
    heard = link.exchange();
  }
  node_0.join();
  REQUIRE(heard.size() == 1);
  CHECK(heard[0].message.text == "no");
}

TEST_CASE("ALauncherOfAnotherSecretIsNotHeard") {
  const std::string other = GENERATE("the secret of another job", "", "a secret of this job ");
  Ends ends = connected();
  NodeWire first(std::move(ends.one), true, kSecret);
  NodeWire second(std::move(ends.other), false, other);
  talk(first, second);
  for (const NodeWire* wire : {&first, &second}) {
    CHECK_FALSE(wire->proved());
    CHECK_FALSE(wire->open());
    CHECK(wire->objection() == "it has another job secret than this node, or none");
  }
}

TEST_CASE("NothingThatAStrangerSaysIsReadAsAMessage") {
  const bool at_node_0 = GENERATE(true, false);
  for (const std::string& text :
       {kHello,
        std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("\n"),
        std::string(65, 'x'),
        greeting(4) + "\n" + kHello,
        greeting(4) + kHello,
        greeting(4) + std::string(64, '0') + "\n" + kHello,
        std::string("gantrain-node 4 ") + std::string(100'000, '0') + "\n" + kHello}) {
    CAPTURE(text.substr(0, 100));
    Stranger stranger(at_node_0);
    CHECK(stranger.say(text) == 0);
    CHECK(stranger.say(kHello) == 0);
    CHECK_FALSE(stranger.wire.proved());
    CHECK_FALSE(stranger.wire.open());
  }
}

TEST_CASE("AnotherVersionIsNamed") {
  for (const int version : {3, 5, 33}) {
    Stranger stranger(true);
    CHECK(stranger.say(greeting(version)) == 0);
    CHECK_FALSE(stranger.wire.open());
    CHECK(stranger.wire.objection() == "it is another version of gantrain");
  }
}

TEST_CASE("WhatALauncherHasSaidProvesNothing") {
  Stranger echo(true);  // says what it hears
  for (int turn = 0; turn < 3; ++turn) CHECK(echo.say(echo.hear()) == 0);
  CHECK_FALSE(echo.wire.proved());

  Stranger one(true), two(true);  // has one connection answer the question of the other
  const std::string question = two.hear();
  one.hear();
  one.say(question);
  two.say(greeting(4));
  CHECK(two.say(one.hear()) == 0);
  CHECK_FALSE(two.wire.proved());

  Ends ends = connected();  // says what a launcher has said earlier
  NodeWire node(std::move(ends.one), false, kSecret);
  Stranger before(true);
  std::string heard;
  const auto relay = [&] {
    std::string text;
    read_from(ends.other.get(), text, 1);
    heard += text;
    before.say(text);
    write_whole(ends.other.get(), before.hear());
    node.receive();
  };
  set_nonblocking(ends.other.get());
  for (int turn = 0; turn < 3; ++turn) relay();
  REQUIRE(before.wire.proved());
  Stranger again(true);
  CHECK(again.say(heard + kHello) == 0);
  CHECK_FALSE(again.wire.proved());
}

TEST_CASE("ASecretOfTheEnvironmentIsLongEnough") {
  CHECK(job_secret({}).empty());
  CHECK(job_secret({{"GANTRAIN_JOB_SECRET", "0123456789abcdef"}}) == "0123456789abcdef");
  CHECK_THROWS_WITH(job_secret({{"GANTRAIN_JOB_SECRET", "0123456789abcde"}}),
                    Catch::Contains("GANTRAIN_JOB_SECRET has 15 characters"));
}

TEST_CASE("Node0MakesAFileThatItsUserAloneReads") {
  const TemporaryFolder folder;
  World world;
  world.ranks.nodes = 2;
  world.ranks.node_rank = 0;
  const auto secret = [&] {
    const NodeLink link(world, {}, kLoopback, "", folder.path());
    return read_file(folder / ".job-secret");
  };
  const std::string first = secret();
  CHECK(first.size() == 65);
  CHECK(secret() != first);
  struct stat file {};
  REQUIRE(::stat((folder / ".job-secret").c_str(), &file) == 0);
  CHECK((file.st_mode & 0777) == 0600);
  std::filesystem::remove(folder / ".job-secret");
  write_file(folder / "elsewhere", "victim");
  std::filesystem::create_symlink("elsewhere", folder / ".job-secret");
  secret();
  CHECK(read_file(folder / "elsewhere") == "victim");
}

TEST_CASE("ANodeThatAsksToJoinIsToldWhatToDo") {
  const ReservedPort port;
  const World first = node(0, port);
  NodeLink link(first, {}, kLoopback, kSecret, "");
  std::atomic<bool> asked = false;
  const auto ask = [&] {
    asked = false;
    std::string told;
    std::thread other([&] {
      try {
        const NodeMessage m = ask_to_join(first.master, kSecret, "", 60);
        told = std::to_string(m.number) + " " + m.text;
      } catch (const UserError& e) {
        told = e.what();
      }
      asked = true;
    });
    while (!asked) {
      link.exchange();
      usleep(1000);
    }
    other.join();
    return told;
  };
  CHECK_THAT(ask(), Catch::Contains("this run's nodes do not change"));
  link.be_elastic("do this");
  CHECK(ask() == "1 do this");
  NodeLink one(node(1, port), {}, {}, kSecret, "");
  std::string problem;
  std::thread comes([&] {
    while (!one.connect(first.master, problem)) usleep(1000);
    one.exchange();
  });
  while (!link.absent().empty()) {
    link.exchange();
    usleep(1000);
  }
  comes.join();
  CHECK(link.present() == std::vector<int64_t>{1});
  CHECK_THAT(ask(), Catch::Contains("all 2 nodes are there"));
  link.forget(1, "because");
  CHECK(link.present().empty());
  std::vector<NodeEvent> heard;
  while (heard.empty()) heard = one.exchange();
  CHECK(heard.front().message.text == "because");
}

TEST_CASE("ANodeThatIsStartedAgainWaitsUntilTheOneBeforeIsForgotten") {
  const ReservedPort port;
  const World first = node(0, port);
  NodeLink link(first, {}, kLoopback, kSecret, "");
  link.be_elastic("");
  std::vector<NodeEvent> heard;
  const auto hear = [&] {
    for (const NodeEvent& event : link.exchange()) heard.push_back(event);
  };
  const auto connect = [&](NodeLink& other) {
    std::atomic<bool> connected = false;
    std::thread comes([&] {
      std::string problem;
      while (!other.connect(first.master, problem)) usleep(1000);
      other.exchange();
      connected = true;
    });
    while (!connected) {
      hear();
      usleep(1000);
    }
    comes.join();
    for (int i = 0; i < 50; ++i) {  // what it has said comes
      hear();
      usleep(1000);
    }
  };
  const auto of_node_1 = [&] {
    return std::make_unique<NodeLink>(
        node(1, port), LaunchOptions{}, std::vector<std::string>{}, kSecret, "");
  };
  auto before = of_node_1();
  connect(*before);
  REQUIRE(link.present() == std::vector<int64_t>{1});
  heard.clear();
  before.reset();  // killed
  const auto again = of_node_1();
  connect(*again);
  REQUIRE(heard.size() == 1);
  CHECK_THAT(heard.front().lost, Catch::Contains("its launcher is gone"));
  link.forget(1, "");
  REQUIRE(eventually(
      [&] {
        hear();
        return heard.size() == 2;
      },
      60));
  CHECK(heard.back().message.word == NodeMessage::Word::kHello);
  CHECK(link.present() == std::vector<int64_t>{1});
}

}  // namespace gantrain
