// Bytes as what a caller sends: however they are cut, the same frames are counted, and the same
// messages are unfinished.
#include <algorithm>

#include "daemon/rpc/admission/http2_frames.h"
#include "tests/fuzz/fuzz_target.h"

// Byte 0: how the rest is cut. Byte 1: whether it starts behind the connection preface.
PROFD_FUZZ_TARGET(FuzzHttp2Frames)(std::span<const uint8_t> data) {
  if (data.size() < 2) return;
  const size_t step = data[0] % 64 + size_t{1};
  const auto bytes = std::as_bytes(data.subspan(2));
  profd::rpc::FrameScanner whole;
  profd::rpc::FrameScanner cut;
  profd::rpc::FrameCounts of_whole;
  profd::rpc::FrameCounts of_cut;
  if (data[1] % 2 == 1) {
    const std::byte preface[profd::rpc::FrameScanner::kPrefaceBytes] = {};
    whole.Scan(preface, of_whole);
    cut.Scan(preface, of_cut);
  }
  whole.Scan(bytes, of_whole);
  for (size_t at = 0; at < bytes.size(); at += step) {
    cut.Scan(bytes.subspan(at, std::min(step, bytes.size() - at)), of_cut);
  }
  if (of_whole != of_cut) __builtin_trap();
  const int64_t unfinished = whole.unfinished_bytes();
  if (unfinished != cut.unfinished_bytes() || whole.unfinished_count() != cut.unfinished_count()) {
    __builtin_trap();
  }
  if (unfinished < static_cast<int64_t>(whole.unfinished_count()) ||
      unfinished > static_cast<int64_t>(bytes.size()) + profd::rpc::FrameScanner::kSliceBytes) {
    __builtin_trap();
  }
  const int64_t all = of_whole.headers + of_whole.resets + of_whole.control + of_whole.small_data;
  if (all * static_cast<int64_t>(profd::rpc::FrameScanner::kHeaderBytes) >
      static_cast<int64_t>(bytes.size())) {
    __builtin_trap();
  }
}
