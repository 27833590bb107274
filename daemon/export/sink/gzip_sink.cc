#include <isa-l/igzip_lib.h>

#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/export/sink/byte_sink.h"

namespace profd::exporter {
namespace {

constexpr size_t kOutputBytes = size_t{256} << 10;
// ISA-L counts input in 32 bits.
constexpr size_t kMostInputBytes = size_t{1} << 30;

class Deflater {
 public:
  Deflater() : level_buffer_(ISAL_DEF_LVL1_DEFAULT) {
    isal_deflate_init(&stream_);
    stream_.level = 1;
    stream_.level_buf = level_buffer_.data();
    stream_.level_buf_size = static_cast<uint32_t>(level_buffer_.size());
    stream_.gzip_flag = IGZIP_GZIP;
  }
  void SetInput(std::string_view bytes, bool last) {
    stream_.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uint32_t>(bytes.size());
    stream_.end_of_stream = last ? 1 : 0;
  }
  // Fills `out` as far as there is input; how far it got.
  absl::StatusOr<size_t> Run(char* out, size_t size) {
    // The end may fill the buffer exactly. The loop then asks once more, and ISA-L must not be
    // called after the end.
    if (stream_.internal_state.state == ZSTATE_END) return 0;
    stream_.next_out = reinterpret_cast<uint8_t*>(out);
    stream_.avail_out = static_cast<uint32_t>(size);
    if (const int result = isal_deflate(&stream_); result != COMP_OK) {
      return absl::InternalError(StrCat("ISA-L cannot compress: error ", result));
    }
    return size - stream_.avail_out;
  }

 private:
  isal_zstream stream_;
  std::vector<uint8_t> level_buffer_;
};

class GzipSink : public ByteSink {
 public:
  explicit GzipSink(ByteSink& out) : out_(out), buffer_(new char[kOutputBytes]) {}

  absl::Status Append(std::string_view bytes) override {
    while (first_error_.ok() && !bytes.empty()) {
      const std::string_view part = bytes.substr(0, kMostInputBytes);
      first_error_ = Compress(part, /*last=*/false);
      bytes.remove_prefix(part.size());
    }
    return first_error_;
  }

  absl::Status Finish() override {
    if (first_error_.ok()) first_error_ = Compress("", /*last=*/true);
    if (first_error_.ok() && filled_ > 0) first_error_ = out_.Append({buffer_.get(), filled_});
    if (first_error_.ok()) first_error_ = out_.Finish();
    return first_error_;
  }

 private:
  absl::Status Compress(std::string_view bytes, bool last) {
    deflater_.SetInput(bytes, last);
    // A buffer that was not filled to its end means that the input is used up.
    while (true) {
      ASSIGN_OR_RETURN(const size_t written,
                       deflater_.Run(buffer_.get() + filled_, kOutputBytes - filled_));
      filled_ += written;
      if (filled_ < kOutputBytes) return absl::OkStatus();
      filled_ = 0;
      RETURN_IF_ERROR(out_.Append({buffer_.get(), kOutputBytes}));
    }
  }

  ByteSink& out_;
  const std::unique_ptr<char[]> buffer_;
  size_t filled_ = 0;
  Deflater deflater_;
  absl::Status first_error_;
};

}  // namespace

std::unique_ptr<ByteSink> NewGzipSink(ByteSink& out) { return std::make_unique<GzipSink>(out); }

}  // namespace profd::exporter
