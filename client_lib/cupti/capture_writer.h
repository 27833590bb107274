// CaptureWriter puts the GPU's events into the capture's memory, in chunks of the GPU thread's
// own.
//
// Unlike an application thread it may wait for a chunk: what it writes is in its buffers
// already, and the daemon gives chunks back within milliseconds. A daemon that gives none for
// kPatienceMs is waited for no more, until it gives one.
//
// The session may be taken away at any time (Leave()). So whatever touches it does so inside
// a Turn, which says whether it is still there.
//
// Threads:   the GPU thread's, but Leave(), which is the agent's: the session is not touched
//            any more once it has also seen no thread inside a write (Quiesce()).
// Ownership: borrows the session.
#ifndef PROFD_CLIENT_LIB_CUPTI_CAPTURE_WRITER_H_
#define PROFD_CLIENT_LIB_CUPTI_CAPTURE_WRITER_H_

#include <atomic>
#include <cstdint>

#include "client_lib/core/session.h"
#include "client_lib/core/thread_state.h"
#include "client_lib/cupti/record_decoder.h"

namespace profd::client {

class CaptureWriter {
 public:
  constexpr CaptureWriter() = default;

  // Before the GPU thread starts.
  void Begin(Session* session);
  void Leave() { session_.store(nullptr, std::memory_order_seq_cst); }

  // A write. sink() may be used if `is_open`; what was written is the daemon's to read when the
  // turn ends.
  class Turn {
   public:
    explicit Turn(CaptureWriter* writer) : writer_(writer), is_open_(writer->Enter()) {}
    ~Turn() { writer_->Exit(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool is_open() const { return is_open_; }
    Session* session() const { return writer_->session_.load(std::memory_order_relaxed); }

   private:
    CaptureWriter* const writer_;
    const bool is_open_;
  };

  EventSink* sink() { return &sink_.sink; }

  // Hands the last chunk over. Inside a turn.
  void Finish();

  // Whether the session was there when last looked.
  bool has_session() const { return session_.load(std::memory_order_relaxed) != nullptr; }

 private:
  // First, so that a pointer to one is a pointer to the other.
  struct SinkOfWriter {
    EventSink sink;
    CaptureWriter* writer;
  };

  bool Enter();
  void Exit();
  void Publish();
  bool TakeChunk();
  void ShowChunk();
  static bool MakeRoom(EventSink* sink, uint32_t bytes);
  static uint32_t Intern(EventSink* sink, const char* text, size_t length);

  std::atomic<Session*> session_{nullptr};
  ThreadState* thread_ = nullptr;
  bool adopted_ = false;
  bool has_patience_ = true;
  SinkOfWriter sink_{};
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_CAPTURE_WRITER_H_
