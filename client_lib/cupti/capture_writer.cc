#include "client_lib/cupti/capture_writer.h"

#include <time.h>

#include "client_lib/core/recorder.h"

namespace profd::client {
namespace {

constexpr int kPatienceMs = 250;

void PauseMs() {
  const timespec pause{0, 1'000'000};
  nanosleep(&pause, nullptr);
}

}  // namespace

void CaptureWriter::Begin(Session* session) {
  thread_ = nullptr;
  adopted_ = false;
  has_patience_ = true;
  sink_ = {{nullptr, nullptr, MakeRoom, Intern}, this};
  session_.store(session, std::memory_order_seq_cst);
}

bool CaptureWriter::Enter() {
  if (thread_ == nullptr) thread_ = CurrentThreadOrNew();
  if (thread_ == nullptr) return false;
  thread_->EnterWrite();
  Session* session = session_.load(std::memory_order_seq_cst);
  if (session == nullptr) {
    // The chunk went with the session.
    thread_->ForgetChunk();
    sink_.sink.at = sink_.sink.end = nullptr;
    return false;
  }
  if (!adopted_) session->Adopt(thread_);
  adopted_ = true;
  return true;
}

void CaptureWriter::Exit() {
  if (thread_ == nullptr) return;
  Publish();
  thread_->LeaveWrite();
}

void CaptureWriter::Publish() {
  if (thread_->chunk == nullptr || sink_.sink.at == nullptr) return;
  thread_->used_bytes = static_cast<uint32_t>(sink_.sink.at - thread_->data);
  thread_->chunk->published_bytes.store(thread_->used_bytes, std::memory_order_release);
}

void CaptureWriter::ShowChunk() {
  sink_.sink.at = thread_->data + thread_->used_bytes;
  sink_.sink.end = thread_->data + wire::kChunkDataBytes;
}

// Waits outside of the write: no thread must wait for this thread while it does.
bool CaptureWriter::TakeChunk() {
  Publish();
  sink_.sink.at = sink_.sink.end = nullptr;
  for (int waited_ms = 0;; ++waited_ms) {
    Session* session = session_.load(std::memory_order_seq_cst);
    if (session == nullptr) {
      thread_->ForgetChunk();
      return false;
    }
    if (session->TakeChunk(thread_)) {
      has_patience_ = true;
      ShowChunk();
      return true;
    }
    if (!has_patience_ || waited_ms == kPatienceMs) break;
    thread_->LeaveWrite();
    PauseMs();
    thread_->EnterWrite();
  }
  has_patience_ = false;
  return false;
}

bool CaptureWriter::MakeRoom(EventSink* sink, uint32_t) {
  return reinterpret_cast<SinkOfWriter*>(sink)->writer->TakeChunk();
}

uint32_t CaptureWriter::Intern(EventSink* sink, const char* text, size_t length) {
  CaptureWriter* writer = reinterpret_cast<SinkOfWriter*>(sink)->writer;
  const uint32_t id = InternName(text, length);
  Session* session = writer->session_.load(std::memory_order_seq_cst);
  if (session == nullptr) return wire::kOtherNameId;
  if (id != wire::kOtherNameId && session->PublishName(id)) return id;
  session->header->other_name_event_count.fetch_add(1, std::memory_order_relaxed);
  return wire::kOtherNameId;
}

void CaptureWriter::Finish() {
  Session* session = session_.load(std::memory_order_seq_cst);
  if (session == nullptr || !adopted_) return;
  Publish();
  session->FinishChunk(thread_);
  thread_->ForgetChunk();
  thread_->session_serial = 0;
  adopted_ = false;
  sink_.sink.at = sink_.sink.end = nullptr;
}

}  // namespace profd::client
