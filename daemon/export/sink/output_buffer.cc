#include "daemon/export/sink/output_buffer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace profd::exporter {
namespace {

// A bug of a trace writer.
[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "profd: a trace writer %s\n", what);
  std::abort();
}

}  // namespace

OutputBuffer::OutputBuffer(ByteSink& sink)
    : sink_(sink),
      piece_(new char[kPieceBytes]),
      end_(piece_.get() + kPieceBytes),
      next_(piece_.get()) {}

void OutputBuffer::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), kMostReservedBytes);
    char* const at = Reserve(part);
    std::memcpy(at, bytes.data(), part);
    Commit(at + part);
    bytes.remove_prefix(part);
  }
}

absl::Status OutputBuffer::Finish() {
  Flush();
  if (status_.ok()) status_ = sink_.Finish();
  return status_;
}

void OutputBuffer::MakeRoom(size_t bytes) {
  if (bytes > kPieceBytes) Die("asked for too much room");
  Flush();
}

void OutputBuffer::Flush() {
  // It wrote over the memory that follows the piece.
  if (next_ > end_) Die("wrote more than it reserved");
  const std::string_view bytes(piece_.get(), static_cast<size_t>(next_ - piece_.get()));
  if (status_.ok() && !bytes.empty()) status_ = sink_.Append(bytes);
  next_ = piece_.get();
}

}  // namespace profd::exporter
