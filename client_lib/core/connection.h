// Connection is the socket to the daemon: finds it, checks whose it is, and carries whole
// frames with their file descriptors.
//
// Threads: the agent's; ResetInChild() on a forked child's only thread.
// Errors:  a peer that breaks the framing is as good as gone: kClosed.
#ifndef PROFD_CLIENT_LIB_CORE_CONNECTION_H_
#define PROFD_CLIENT_LIB_CORE_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "client_lib/core/frame_builder.h"
#include "client_lib/core/own_files.h"
#include "proto/wire/frame.h"

namespace profd::client {

// A frame that came in: checked to be of the length that it says.
struct ReceivedFrame {
  wire::FrameHeader header;
  size_t body_bytes;
  const char* body;
  int fd;  // The file that came with it, or -1. The connection's, until DropFile().

  // Copies the fixed body out. False: the frame is too short to have one.
  template <typename Body>
  bool Read(Body* into) const {
    if (body_bytes < sizeof(Body)) return false;
    memcpy(into, body, sizeof(Body));
    return true;
  }

  // The first field of `tag` after a fixed body of `fixed_bytes`. False: there is none.
  bool FindField(size_t fixed_bytes, wire::FieldTag tag, const char** bytes, size_t* length) const;
};

class Connection {
 public:
  enum class Got { kFrame, kNothing, kClosed };

  constexpr Connection() = default;

  // Connects to the socket at `path` without waiting. False: no daemon answers there, or it
  // is neither root's nor ours.
  bool Open(const char* path);
  void Close();

  // Sends the frame. A daemon that does not read is waited for, for some seconds.
  bool Send(FrameBuilder& frame);

  // Takes the next frame, if there is one. `frame` is good until the next call.
  Got Receive(ReceivedFrame* frame);

  // Closes the file that came with the last frame. Receive() does so, too.
  void DropFile() { file_.Close(); }

  // -1: there is no connection, or the program has closed it.
  int fd() { return socket_.Get(); }

  // Closes the inherited descriptors and says nothing to the daemon.
  void ResetInChild();

 private:
  OwnFile socket_;
  OwnFile file_;  // Came with the last frame.
  alignas(8) char bytes_[wire::kMaxFrameBytes] = {};
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_CONNECTION_H_
