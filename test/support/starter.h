// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// How commands are given to the process that starts them (program_starter.cpp).
namespace gantrain {

constexpr int kStandardFiles = 3;

// A command: zero-terminated texts, its working folder, its arguments and its environment. Its
// standard input, output and error come with it.
struct StartRequest {
  uint32_t bytes = 0;      // of all texts
  uint32_t arguments = 0;  // how many of them are arguments
};

inline bool read_whole(int descriptor, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::read(descriptor, at, bytes);
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

// Memory of a message of which this many files are a part.
union FilesOfMessage {
  cmsghdr header;
  char bytes[CMSG_SPACE(kStandardFiles * sizeof(int))];
};

// A message of one part, with files in that memory. Both are borrowed.
inline msghdr message_with(iovec& part, FilesOfMessage& memory) {
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = memory.bytes;
  message.msg_controllen = sizeof memory.bytes;
  return message;
}

inline bool send_request(int socket,
                         const std::string& folder,
                         const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment,
                         const int (&files)[kStandardFiles]) {
  std::string texts = folder + '\0';
  for (const auto* list : {&arguments, &environment}) {
    for (const std::string& text : *list) texts += text + '\0';
  }
  StartRequest request{static_cast<uint32_t>(texts.size()),
                       static_cast<uint32_t>(arguments.size())};
  iovec part{&request, sizeof request};
  FilesOfMessage memory{};
  const msghdr message = message_with(part, memory);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  *header = {CMSG_LEN(sizeof files), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(header), files, sizeof files);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof request &&
         ::send(socket, texts.data(), texts.size(), MSG_NOSIGNAL) ==
             static_cast<ssize_t>(texts.size());
}

inline bool receive_request(int socket,
                            StartRequest& request,
                            std::vector<char>& texts,
                            int (&files)[kStandardFiles]) {
  iovec part{&request, sizeof request};
  FilesOfMessage memory{};
  msghdr message = message_with(part, memory);
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != sizeof request) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof files)) return false;
  std::memcpy(files, CMSG_DATA(header), sizeof files);
  texts.resize(request.bytes);
  return read_whole(socket, texts.data(), texts.size());
}

}  // namespace gantrain
