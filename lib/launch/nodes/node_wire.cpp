// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "config/schema.h"
#include "launch/nodes/node_link.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr int kVersion = 4;
constexpr int64_t kMostInPlace = 1 << 20;  // also of ranks, so that their product is a number

bool is_sound(const NodeTable& table) {
  return std::ranges::all_of(table.nodes, [](const NodeAddress& one) {
    return one.node >= 0 && one.node <= kMostInPlace && one.port > 0 && one.port < 65536;
  });
}

// A message on its way. The numbers come first, and say what else there is.
struct Envelope {
  int version = kVersion;
  int word = 0;
  NodeMessage message;
};

template <class Field>
void fields(Envelope& e, Field&& field) {
  using Word = NodeMessage::Word;
  field("gantrain", e.version);
  field("word", e.word);
  if (e.version != kVersion || e.word < 0 || e.word > static_cast<int>(Word::kReplaced))
    throw std::logic_error("no message of a launcher");
  NodeMessage& m = e.message;
  m.word = static_cast<Word>(e.word);
  if (m.word == Word::kBeat) return;
  field("number", m.number);
  field("port", m.port);
  field("text", m.text);
  field("place", m.place);
  for (const int64_t number : {m.place.node, m.place.nodes, m.place.ranks}) {
    if (number < 0 || number > kMostInPlace) throw std::logic_error("no place of a launcher");
  }
  const bool left = m.word == Word::kLeft;
  if (left || m.word == Word::kReport) field("deaths", m.deaths);
  if (m.word == Word::kVerdict) field("end", m.end);
  if (left || m.word == Word::kStartRanks || m.word == Word::kEndRank) field("slots", m.slots);
  if (m.word == Word::kRoster) field("roster", m.roster);
  if (m.word != Word::kTable) return;
  field("table", m.table);
  if (!is_sound(m.table)) throw std::logic_error("no table of launchers");
}

constexpr size_t kLongestMessage = 1 << 20;  // bytes without a newline: no launcher sends that

constexpr std::string_view kGreeting = "gantrain-node ";  // the version and a random number follow
const std::string kGreetingOfThisVersion = fmt::format("{}{} ", kGreeting, kVersion);
constexpr size_t kLongestGreeting = 64;  // bytes of a line; a proof has so many

}  // namespace

std::string NodePlace::text() const {
  return host.empty() ? fmt::format("node {}", node) : fmt::format("node {} ({})", node, host);
}

std::string encode(const NodeMessage& message) {
  const Json json =
      message_of(Envelope{.word = static_cast<int>(message.word), .message = message});
  // What ranks and users write need not be UTF-8.
  return json_line(json) + "\n";
}

std::optional<NodeMessage> decode(std::string_view line) {
  try {
    return message_from<Envelope>(parse_foreign(line)).message;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::logic_error&) {
    return std::nullopt;
  }
}

std::string job_secret(const Env& env) {
  const std::string secret = variable(env, "GANTRAIN_JOB_SECRET");
  if (secret.empty() || secret.size() >= kShortestSecret) return secret;
  fail(Exit::kEnvironment,
       "GANTRAIN_JOB_SECRET has {} characters: give all nodes the same {} or more",
       secret.size(),
       kShortestSecret);
}

std::string secret_in(const fs::path& file) {
  const std::string text = trim(content_of(file, kMostOfText).value_or(""));
  std::error_code error;
  const auto others = fs::perms::group_all | fs::perms::others_all;
  const bool own = (fs::status(file, error).permissions() & others) == fs::perms::none &&
                   shared_with_others(file).empty();
  return own && text.size() >= kShortestSecret ? text : "";
}

std::string new_secret_in(const fs::path& file) {
  const UniqueFd lock(open_regular(file.parent_path() / ".lock", O_RDWR | O_CREAT));
  // A run that is at work there, or still ending, keeps its own.
  const bool busy = ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  std::string secret = busy ? secret_in(file) : "";
  if (!secret.empty()) return secret;
  secret = random_hex(32);
  AtomicFile out(file, 0600);
  out.write(secret + "\n");
  out.commit();
  return secret;
}

NodeWire::NodeWire(UniqueFd connected, bool accepts, std::string secret)
    : fd_(std::move(connected)),
      accepts_(accepts),
      secret_(std::move(secret)),
      greeting_(kGreetingOfThisVersion + random_hex(16)),
      unsent_(greeting_ + "\n") {
  set_nonblocking(fd_.get());
  const int yes = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  flush();
}

void NodeWire::take_greeting(const std::string& line) {
  const auto proof = [this](const char* side, const std::string& own, const std::string& other) {
    return hmac_sha256(secret_, fmt::format("{}\n{}\n{}", side, own, other));
  };
  if (!other_.empty()) {
    proved_ = line == proof(accepts_ ? "other node" : "node 0", other_, greeting_);
    if (!proved_) objection_ = kOtherSecret;
  } else if (line.size() == greeting_.size() && starts_with(line, kGreetingOfThisVersion)) {
    other_ = line;
    unsent_ += proof(accepts_ ? "node 0" : "other node", greeting_, other_) + "\n";
    return flush();
  } else if (starts_with(line, kGreeting)) {
    objection_ = "it is another version of gantrain";
  }
  if (!proved_) fd_.close();
}

void NodeWire::send(const NodeMessage& message) {
  if (!open()) return;
  unsent_ += encode(message);
  flush();
}

void NodeWire::flush() {
  while (open() && !unsent_.empty()) {
    const ssize_t size = ::send(fd_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (size < 0) {  // what the other side said last may still be read
      unsent_.clear();
      return;
    }
    unsent_.erase(0, static_cast<size_t>(size));
  }
}

void NodeWire::take_lines(std::vector<NodeMessage>& messages) {
  size_t begin = 0;
  for (size_t end = 0; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto message = decode(std::string_view(unread_).substr(begin, end - begin));
    if (!message) {
      fd_.close();
      return;
    }
    messages.push_back(*message);
  }
  unread_.erase(0, begin);
  const bool foreign = !unread_.empty() && unread_.front() != '{';  // a rank of another launcher
  if (foreign || unread_.size() > kLongestMessage) fd_.close();
}

std::vector<NodeMessage> NodeWire::receive() {
  std::vector<NodeMessage> messages;
  flush();
  if (!open()) return messages;
  const bool more = read_from(fd_.get(), unread_, proved_ ? 2 * kLongestMessage : 1);
  for (size_t end = 0; open() && !proved_ && (end = unread_.find('\n')) != std::string::npos;) {
    const std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    take_greeting(line);
  }
  if (!proved_ && unread_.size() > kLongestGreeting) fd_.close();
  if (proved_) take_lines(messages);
  if (!more) fd_.close();
  return messages;
}

void NodeWire::finish(double seconds) {
  const double end = monotonic_seconds() + seconds;
  flush();
  while (open() && has_unsent() && wait_for(fd_.get(), POLLOUT, end)) flush();
  // With unread bytes left, close() would make the kernel drop what the other side has not read.
  if (open()) ::shutdown(fd_.get(), SHUT_WR);
  receive();
  fd_.close();
}

}  // namespace gantrain
