#include "daemon/archive/s3/http.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/watchdog.h"

namespace profd::archive {
namespace {

constexpr size_t kMaxHeaderBytes = 64 << 10;
constexpr size_t kMaxHeaders = 200;
constexpr long kUploadBufferBytes = 512 << 10;

// One request in progress, for libcurl's callbacks.
struct Transfer {
  const HttpRequest& request;
  const std::function<bool()>& stop;
  HttpAnswer answer;
  int64_t sent_bytes = 0;
  size_t header_bytes = 0;
  bool too_large = false;
  int read_errno = 0;
};

// libcurl is initialized once in a process; it is safe from any thread since 7.84.
CURLcode InitializeCurl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  return code;
}

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  if (transfer.answer.body.size() + bytes > transfer.request.max_answer_bytes) {
    transfer.too_large = true;
    return 0;  // libcurl ends the transfer.
  }
  transfer.answer.body.append(data, bytes);
  return bytes;
}

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  transfer.header_bytes += bytes;
  if (transfer.header_bytes > kMaxHeaderBytes || transfer.answer.headers.size() > kMaxHeaders) {
    transfer.too_large = true;
    return 0;
  }
  std::string_view line(data, bytes);
  // A later answer follows "100 Continue".
  if (line.starts_with("HTTP/")) transfer.answer.headers.clear();
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bytes;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view value = line.substr(colon + 1);
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!value.empty() && is_space(value.front())) value.remove_prefix(1);
  while (!value.empty() && is_space(value.back())) value.remove_suffix(1);
  transfer.answer.headers[std::move(name)] = std::string(value);
  return bytes;
}

size_t OnRead(char* to, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const auto room = static_cast<int64_t>(size * count);
  const HttpRequest& request = transfer.request;
  if (!request.file.has_value()) {
    const size_t bytes =
        request.bytes.copy(to, static_cast<size_t>(room), static_cast<size_t>(transfer.sent_bytes));
    transfer.sent_bytes += static_cast<int64_t>(bytes);
    return bytes;
  }
  const auto bytes = static_cast<size_t>(std::min(room, request.file->bytes - transfer.sent_bytes));
  ssize_t got;
  do {
    got = pread(request.file->descriptor, to, bytes, request.file->offset + transfer.sent_bytes);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    transfer.read_errno = errno;
    return CURL_READFUNC_ABORT;
  }
  transfer.sent_bytes += got;
  return static_cast<size_t>(got);
}

// libcurl rewinds a body that it has to send again.
int OnSeek(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Transfer*>(user)->sent_bytes = offset;
  return CURL_SEEKFUNC_OK;
}

int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  ReportProgress();
  const auto& transfer = *static_cast<Transfer*>(user);
  return transfer.stop && transfer.stop() ? 1 : 0;
}

struct FreeHeaders {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeHeaders>;

HeaderList MakeHeaders(const std::vector<std::string>& headers) {
  curl_slist* list = nullptr;
  for (const std::string& header : headers) list = curl_slist_append(list, header.c_str());
  return HeaderList(list);
}

void SetMethod(CURL* curl, const HttpRequest& request) {
  const auto bytes =
      request.file.has_value() ? request.file->bytes : static_cast<int64_t>(request.bytes.size());
  switch (request.method) {
    case HttpMethod::kGet:
      curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
      break;
    case HttpMethod::kHead:
      curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
      break;
    case HttpMethod::kPut:
      curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
      curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(bytes));
      break;
    case HttpMethod::kPost:
      curl_easy_setopt(curl, CURLOPT_POST, 1L);
      curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(bytes));
      curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.bytes.data());
      break;
    case HttpMethod::kDelete:
      curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "DELETE");
      break;
  }
}

// "https://host:port" of a URL, for messages; keys of objects are of no interest in them.
std::string_view ServerOf(std::string_view url) {
  const size_t host = url.find("://");
  return url.substr(0, url.find('/', host == std::string_view::npos ? 0 : host + 3));
}

absl::Status TransferStatus(CURLcode code, const Transfer& transfer, const char* detail) {
  // A failed pread() aborts by a callback, too, as a stop does. Only the former sets read_errno.
  if (code == CURLE_ABORTED_BY_CALLBACK && transfer.read_errno == 0) {
    return absl::CancelledError("the request was stopped");
  }
  if (transfer.too_large) {
    return absl::DataLossError(StrCat("the answer of ", ServerOf(transfer.request.url),
                                      " is larger than ", transfer.request.max_answer_bytes,
                                      " bytes"));
  }
  if (transfer.read_errno != 0) {
    return absl::InternalError(
        StrCat("cannot read what is to be sent (errno ", transfer.read_errno, ")"));
  }
  const std::string what =
      StrCat("'", ForDisplay(ServerOf(transfer.request.url), 200),
             "': ", ForDisplay(*detail != '\0' ? detail : curl_easy_strerror(code), 300));
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_SSL_CACERT_BADFILE:
      return absl::FailedPreconditionError(StrCat("cannot use ", what));
    case CURLE_PEER_FAILED_VERIFICATION:
      return absl::UnavailableError(
          StrCat("the certificate of ", what, "; name its authority (archive-ca)"));
    default:
      return absl::UnavailableError(StrCat("no answer from ", what));
  }
}

}  // namespace

std::string_view HttpAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

struct HttpSession::Handle {
  CURL* curl = nullptr;
  Handle() {
    if (InitializeCurl() == CURLE_OK) curl = curl_easy_init();
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { curl_easy_cleanup(curl); }
};

HttpSession::HttpSession(Options options)
    : options_(std::move(options)), handle_(std::make_unique<Handle>()) {}
HttpSession::~HttpSession() = default;

absl::StatusOr<HttpAnswer> HttpSession::Send(const HttpRequest& request) {
  CURL* const curl = handle_->curl;
  if (curl == nullptr) return absl::InternalError("libcurl cannot be initialized");
  curl_easy_reset(curl);  // Keeps connections.
  Transfer transfer{.request = request, .stop = options_.stop, .answer = {}};
  char detail[CURL_ERROR_SIZE] = "";
  const HeaderList headers = MakeHeaders(request.headers);

  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  // An endpoint of the configuration must not make libcurl read files or speak another protocol.
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  // Without it, libcurl uses SIGALRM for time-outs of name look-ups, which is not safe in a program
  // with threads.
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);  // Waits for no name server at the end.
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "profd");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  if (!options_.authorities.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, options_.authorities.c_str());
  }
  if (!options_.use_proxy) curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options_.connect_timeout)));
  // No limit on the whole transfer: a large object over a slow line is fine as long as bytes move.
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(
      curl, CURLOPT_LOW_SPEED_TIME,
      static_cast<long>(std::max<int64_t>(1, absl::ToInt64Seconds(options_.stall_timeout))));
  if (options_.max_bytes_per_second > 0) {
    const auto rate = static_cast<curl_off_t>(options_.max_bytes_per_second);
    curl_easy_setopt(curl, CURLOPT_MAX_SEND_SPEED_LARGE, rate);
    curl_easy_setopt(curl, CURLOPT_MAX_RECV_SPEED_LARGE, rate);
  }
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_READFUNCTION, OnRead);
  curl_easy_setopt(curl, CURLOPT_READDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, OnSeek);
  curl_easy_setopt(curl, CURLOPT_SEEKDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, kUploadBufferBytes);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  if (!request.range.empty()) curl_easy_setopt(curl, CURLOPT_RANGE, request.range.c_str());
  SetMethod(curl, request);
  if (request.credentials != nullptr) {
    const std::string scheme = StrCat("aws:amz:", request.region, ":s3");
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, scheme.c_str());
    curl_easy_setopt(curl, CURLOPT_USERNAME, request.credentials->access_key.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD, request.credentials->secret_key.c_str());
  }
  const CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK) {
    absl::Status status = TransferStatus(code, transfer, detail);
    curl_easy_reset(curl);  // It must not keep pointers to this frame.
    return status;
  }
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  transfer.answer.status = static_cast<int>(status);
  curl_easy_reset(curl);
  return std::move(transfer.answer);
}

}  // namespace profd::archive
