#include "daemon/archive/s3/s3_client.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "daemon/archive/s3/s3_url.h"
#include "daemon/archive/s3/xml.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/watchdog.h"
#include "daemon/store/file/sha256.h"

namespace profd::archive {
namespace {

constexpr char kSha256Header[] = "x-amz-meta-profd-sha256";
constexpr int kMaxPages = 10'000;  // Of one listing; a server that never ends one is broken.
constexpr size_t kMaxUploads = 1'000'000;
constexpr absl::Duration kPauseSlice = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(10);
constexpr size_t kMaxIdBytes = 2048;
constexpr size_t kMaxErrorBytes = 64 << 10;
constexpr size_t kHashBufferBytes = 1 << 20;

// Of upload IDs, ETags, and the like, which go back to the server as they came.
bool IsToken(std::string_view text) {
  return !text.empty() && text.size() <= kMaxIdBytes &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

absl::StatusOr<int64_t> NumberIn(std::string_view text) {
  int64_t number = 0;
  if (absl::SimpleAtoi(ToAbsl(text), &number) && number >= 0) return number;
  return absl::DataLossError(
      StrCat("the server's answer has '", ForDisplay(text, 40), "' for a number"));
}

absl::StatusOr<std::string> TokenIn(const XmlElement& element, std::string_view child) {
  std::string text(element.child_text(child));
  if (IsToken(text)) return text;
  return absl::DataLossError(StrCat("the server's answer lacks ", child));
}

absl::StatusOr<std::string> Sha256Of(std::string_view bytes) {
  store::Sha256 hash;
  hash.Append(bytes);
  return hash.Finish();
}

absl::StatusOr<std::string> Sha256Of(const FilePart& file) {
  store::Sha256 hash;
  std::string buffer(kHashBufferBytes, '\0');
  for (int64_t done = 0; done < file.bytes;) {
    ReportProgress();
    const auto wanted =
        static_cast<size_t>(std::min<int64_t>(std::ssize(buffer), file.bytes - done));
    const ssize_t got = pread(file.descriptor, buffer.data(), wanted, file.offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::DataLossError("the file is shorter than it was");
    hash.Append({buffer.data(), static_cast<size_t>(got)});
    done += got;
  }
  return hash.Finish();
}

// For a list that goes on, but not from another place than before. Neither reading the same page
// again nor taking it for the last one is right.
absl::Status ListStandsStill(std::string_view what) {
  return absl::DataLossError(
      StrCat("the server's list of ", what, " has more, and does not say from where"));
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

std::string DefaultEndpoint(std::string_view region) {
  return StrCat("https://s3.", region, ".amazonaws.com");
}

// How far the server's clock is ahead of ours; nullopt: it does not tell.
std::optional<absl::Duration> ClockDifference(const HttpAnswer& answer, absl::Time now) {
  absl::Time server;
  if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", ToAbsl(answer.header("date")), &server,
                       nullptr)) {
    return std::nullopt;
  }
  return server - now;
}

// What an answer that is no success says.
struct ServerError {
  std::string code;
  std::string message;
};

ServerError ServerErrorIn(const HttpAnswer& answer) {
  const absl::StatusOr<XmlElement> parsed = ParseXml(answer.body);
  if (!parsed.ok() || parsed->name != "Error") return {};
  return {.code = ForDisplay(parsed->child_text("Code"), 80),
          .message = ForDisplay(parsed->child_text("Message"), 200)};
}

}  // namespace

S3Client::S3Client(Options options, CredentialSource& credentials, Clock& clock)
    : options_(std::move(options)),
      credentials_(credentials),
      clock_(clock),
      session_({.authorities = options_.authorities,
                .max_bytes_per_second = options_.max_bytes_per_second,
                .stall_timeout = options_.stall_timeout,
                .stop = options_.stop}) {}

std::string S3Client::UrlOf(std::string_view key, const Query& query) const {
  std::string url =
      options_.endpoint.empty() ? DefaultEndpoint(options_.region) : options_.endpoint;
  while (url.ends_with('/')) url.pop_back();
  // Servers other than Amazon's often have no DNS name for each bucket.
  if (options_.path_style.value_or(!options_.endpoint.empty())) {
    StrAppend(&url, "/", options_.bucket);
    if (!key.empty()) StrAppend(&url, "/");
  } else {
    const size_t scheme = url.find("://");
    url.insert(scheme == std::string::npos ? 0 : scheme + 3, options_.bucket + ".");
    StrAppend(&url, "/");
  }
  StrAppend(&url, PercentEncode(key, "/"));
  char separator = '?';
  for (const auto& [name, value] : query) {
    StrAppend(&url, std::string(1, separator), PercentEncode(name), "=", PercentEncode(value));
    separator = '&';
  }
  return url;
}

absl::Status S3Client::Pause(absl::Duration duration) {
  for (absl::Duration done; done < duration; done += kPauseSlice) {
    if (options_.stop && options_.stop()) return absl::CancelledError("the request was stopped");
    ReportProgress();
    absl::SleepFor(kPauseSlice);
  }
  return absl::OkStatus();
}

absl::Status S3Client::StatusOf(const HttpAnswer& answer, const Call& call) {
  const ServerError error = ServerErrorIn(answer);
  const std::string said =
      error.code.empty() ? StrCat("HTTP status ", answer.status)
                         : StrCat(error.code, error.message.empty() ? "" : ": ", error.message);
  const std::string where = StrCat("bucket '", options_.bucket, "'");
  if (answer.status >= 500 || answer.status == 429 || answer.status == 408 ||
      error.code == "SlowDown" || error.code == "RequestTimeout") {
    return WithReason(
        absl::UnavailableError(StrCat("the server of ", where, " is busy or failed (", said, ")")),
        kBusy);
  }
  // Bytes that changed on their way: sent again, they may not.
  if (error.code == "XAmzContentSHA256Mismatch" || error.code == "BadDigest") {
    return WithReason(
        absl::UnavailableError(StrCat("the server of ", where,
                                      " received other bytes than were sent (", error.code, ")")),
        kBusy);
  }
  if (error.code == "RequestTimeTooSkewed" || error.code == "RequestExpired") {
    const std::optional<absl::Duration> ahead = ClockDifference(answer, clock_.Now());
    return WithReason(
        absl::FailedPreconditionError(StrCat(
            "the server of ", where, " refuses this machine's clock",
            ahead.has_value()
                ? StrCat(", which differs by ", absl::FormatDuration(absl::Trunc(
                                                    absl::AbsDuration(*ahead), absl::Seconds(1))))
                : "",
            "; synchronize it (chrony or another NTP client)")),
        kClockSkew);
  }
  if (answer.status == 404 && error.code != "NoSuchBucket") {
    return absl::NotFoundError(
        StrCat("there is no object '", ForDisplay(call.key, 200), "' in ", where));
  }
  if (error.code == "NoSuchBucket") {
    return WithReason(absl::NotFoundError(StrCat("there is no ", where,
                                                 "; create it, or name "
                                                 "another one")),
                      kNoBucket);
  }
  if (error.code == "SignatureDoesNotMatch" || error.code == "InvalidAccessKeyId" ||
      error.code == "InvalidToken" || error.code == "ExpiredToken" || answer.status == 401) {
    return WithReason(absl::PermissionDeniedError(StrCat("the server of ", where,
                                                         " does not accept the credentials (", said,
                                                         "); check the access key and the secret")),
                      kBadCredentials);
  }
  // Head() has no body, so it cannot tell the two.
  if (answer.status == 403) {
    return WithReason(absl::PermissionDeniedError(
                          StrCat("the credentials may not use '", ForDisplay(call.key, 200),
                                 "' in ", where, " (", said, "); allow it in the bucket's policy")),
                      kDenied);
  }
  const std::string_view region = answer.header("x-amz-bucket-region");
  return WithReason(absl::FailedPreconditionError(StrCat(
                        "the server of ", where, " refuses the request (", said, ")",
                        region.empty() || region == options_.region
                            ? ""
                            : StrCat("; the bucket is in region '", ForDisplay(region, 40), "'"))),
                    kRefused);
}

absl::StatusOr<HttpAnswer> S3Client::SendOnce(const Call& call) {
  ASSIGN_OR_RETURN(const Credentials credentials, credentials_.Get());
  HttpRequest request;
  request.method = call.method;
  request.url = UrlOf(call.key, call.query);
  request.headers = call.headers;
  request.headers.push_back(StrCat("x-amz-content-sha256: ", call.sha256));
  if (!credentials.session_token.empty()) {
    request.headers.push_back(StrCat("x-amz-security-token: ", credentials.session_token));
  }
  request.file = call.file;
  request.bytes = call.bytes;
  request.range = call.range;
  request.max_answer_bytes = call.max_answer_bytes;
  request.credentials = &credentials;
  request.region = options_.region;
  absl::StatusOr<HttpAnswer> answer = session_.Send(request);
  if (absl::IsUnavailable(answer.status())) return WithReason(answer.status(), kUnreachable);
  RETURN_IF_ERROR(answer.status());
  if (answer->status >= 200 && answer->status < 300) return answer;
  return StatusOf(*answer, call);
}

absl::StatusOr<HttpAnswer> S3Client::Send(const Call& call) {
  absl::Duration pause = options_.first_pause;
  bool is_renewed = false;
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<HttpAnswer> answer = SendOnce(call);
    // A role's credentials may have been replaced before they expire. Others come at once, and if
    // they are refused, too, another attempt does not help.
    if (ReasonOf(answer.status()) == kBadCredentials && !is_renewed && credentials_.Forget()) {
      is_renewed = true;
      continue;
    }
    if (!absl::IsUnavailable(answer.status()) || attempt >= options_.attempts) return answer;
    RETURN_IF_ERROR(Pause(pause));
    pause = std::min(2 * pause, kLongestPause);
  }
}

std::vector<std::string> S3Client::HeadersOf(const ObjectProperties& properties) const {
  std::vector<std::string> headers = {StrCat("Content-Type: ", properties.content_type)};
  if (!properties.sha256.empty()) {
    headers.push_back(StrCat(kSha256Header, ": ", properties.sha256));
  }
  if (!options_.encryption.empty()) {
    headers.push_back(StrCat("x-amz-server-side-encryption: ", options_.encryption));
  }
  return headers;
}

absl::StatusOr<ObjectInfo> S3Client::Head(std::string_view key) {
  Call call{.method = HttpMethod::kHead, .key = key};
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(std::string_view()));
  ASSIGN_OR_RETURN(const HttpAnswer answer, Send(call));
  ObjectInfo info{.key = std::string(key), .sha256 = std::string(answer.header(kSha256Header))};
  ASSIGN_OR_RETURN(info.bytes, NumberIn(answer.header("content-length")));
  return info;
}

absl::StatusOr<std::string> S3Client::Get(std::string_view key, int64_t offset, int64_t bytes) {
  if (offset < 0 || bytes <= 0 || bytes > kMaxGetBytes) {
    return absl::InternalError("a range of an object that cannot be read");
  }
  Call call{.key = key, .range = StrCat(offset, "-", offset + bytes - 1)};
  // An error's text may be longer than a short range.
  call.max_answer_bytes = std::max(static_cast<size_t>(bytes), kMaxErrorBytes);
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(std::string_view()));
  absl::StatusOr<HttpAnswer> answer = Send(call);
  RETURN_IF_ERROR(answer.status());
  // A server without ranges would answer 200 with the whole object.
  const bool fits = std::ssize(answer->body) <= bytes;
  if (fits && (answer->status == 206 || offset == 0)) return std::move(answer->body);
  return absl::DataLossError("the server of the archive does not read ranges of objects");
}

absl::StatusOr<ObjectPage> S3Client::List(std::string_view prefix, std::string_view next) {
  Call call;
  call.query = {{"list-type", "2"}, {"prefix", std::string(prefix)}};
  if (!next.empty()) call.query["continuation-token"] = std::string(next);
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(std::string_view()));
  ASSIGN_OR_RETURN(const HttpAnswer answer, Send(call));
  ASSIGN_OR_RETURN(const XmlElement root, ParseXml(answer.body));
  ObjectPage page;
  for (const XmlElement& element : root.children) {
    if (element.name != "Contents") continue;
    ObjectInfo object{.key = std::string(element.child_text("Key"))};
    ASSIGN_OR_RETURN(object.bytes, NumberIn(element.child_text("Size")));
    page.objects.push_back(std::move(object));
  }
  if (root.child_text("IsTruncated") != "true") return page;
  page.next = std::string(root.child_text("NextContinuationToken"));
  if (page.next.empty() || page.next == next) return ListStandsStill("objects");
  return page;
}

absl::Status S3Client::Put(std::string_view key, std::string_view bytes,
                           const ObjectProperties& properties) {
  Call call{.method = HttpMethod::kPut, .key = key, .headers = HeadersOf(properties)};
  call.bytes = bytes;
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(bytes));
  return Send(call).status();
}

absl::Status S3Client::Put(std::string_view key, const FilePart& file,
                           const ObjectProperties& properties) {
  Call call{.method = HttpMethod::kPut, .key = key, .headers = HeadersOf(properties)};
  call.file = file;
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(file));
  return Send(call).status();
}

absl::Status S3Client::Delete(std::string_view key) {
  Call call{.method = HttpMethod::kDelete, .key = key};
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(std::string_view()));
  absl::Status status = Send(call).status();
  // Not found without a reason is the object; with kNoBucket it is the bucket, and that is an
  // error.
  return absl::IsNotFound(status) && ReasonOf(status).empty() ? absl::OkStatus() : status;
}

absl::StatusOr<std::string> S3Client::BeginUpload(std::string_view key,
                                                  const ObjectProperties& properties) {
  Call call{.method = HttpMethod::kPost,
            .key = key,
            .query = {{"uploads", ""}},
            .headers = HeadersOf(properties)};
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(std::string_view()));
  ASSIGN_OR_RETURN(const HttpAnswer answer, Send(call));
  ASSIGN_OR_RETURN(const XmlElement root, ParseXml(answer.body));
  return TokenIn(root, "UploadId");
}

absl::StatusOr<UploadedPart> S3Client::PutPart(std::string_view key, std::string_view upload_id,
                                               int number, const FilePart& file) {
  Call call{.method = HttpMethod::kPut,
            .key = key,
            .query = {{"partNumber", StrCat(number)}, {"uploadId", std::string(upload_id)}}};
  call.file = file;
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(file));
  ASSIGN_OR_RETURN(const HttpAnswer answer, Send(call));
  UploadedPart part{
      .number = number, .bytes = file.bytes, .etag = std::string(answer.header("etag"))};
  if (!IsToken(part.etag)) return absl::DataLossError("the server gives a part no ETag");
  return part;
}

absl::StatusOr<std::vector<UploadedPart>> S3Client::ListParts(std::string_view key,
                                                              std::string_view upload_id) {
  std::vector<UploadedPart> parts;
  Call call{.key = key, .query = {{"uploadId", std::string(upload_id)}}};
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(std::string_view()));
  for (int64_t after = 0;;) {
    ASSIGN_OR_RETURN(const HttpAnswer answer, Send(call));
    ASSIGN_OR_RETURN(const XmlElement root, ParseXml(answer.body));
    for (const XmlElement& element : root.children) {
      if (element.name != "Part") continue;
      UploadedPart part;
      ASSIGN_OR_RETURN(const int64_t number, NumberIn(element.child_text("PartNumber")));
      ASSIGN_OR_RETURN(part.bytes, NumberIn(element.child_text("Size")));
      ASSIGN_OR_RETURN(part.etag, TokenIn(element, "ETag"));
      if (number < 1 || number > kMaxParts) return absl::DataLossError("a part's number is wrong");
      part.number = static_cast<int>(number);
      parts.push_back(std::move(part));
    }
    if (parts.size() > kMaxParts) return absl::DataLossError("an upload has too many parts");
    if (root.child_text("IsTruncated") != "true") return parts;
    ASSIGN_OR_RETURN(const int64_t marker, NumberIn(root.child_text("NextPartNumberMarker")));
    if (marker <= after || marker >= kMaxParts) return ListStandsStill("parts");
    after = marker;
    call.query["part-number-marker"] = StrCat(marker);
  }
}

absl::Status S3Client::FinishUpload(std::string_view key, std::string_view upload_id,
                                    const std::vector<UploadedPart>& parts) {
  std::string body = "<CompleteMultipartUpload>";
  for (const UploadedPart& part : parts) {
    StrAppend(&body, "<Part><PartNumber>", part.number, "</PartNumber><ETag>", Escaped(part.etag),
              "</ETag></Part>");
  }
  body += "</CompleteMultipartUpload>";
  Call call{.method = HttpMethod::kPost,
            .key = key,
            .query = {{"uploadId", std::string(upload_id)}},
            .headers = {"Content-Type: application/xml"}};
  call.bytes = body;
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(body));
  absl::Duration pause = options_.first_pause;
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<HttpAnswer> sent = Send(call);
    // An earlier attempt whose answer was lost may have succeeded: then the upload is gone, and the
    // object is there.
    if (absl::IsNotFound(sent.status()) && ReasonOf(sent.status()).empty()) {
      int64_t bytes = 0;
      for (const UploadedPart& part : parts) bytes += part.bytes;
      const absl::StatusOr<ObjectInfo> object = Head(key);
      if (object.ok() && object->bytes == bytes) return absl::OkStatus();
    }
    RETURN_IF_ERROR(sent.status());
    HttpAnswer& answer = *sent;
    // The server answers 200 before it knows whether it succeeds.
    if (ServerErrorIn(answer).code.empty()) return ParseXml(answer.body).status();
    // The error came in an answer with status 200. As one of a busy server it is tried again.
    answer.status = 503;
    absl::Status status = StatusOf(answer, call);
    if (attempt >= options_.attempts) return status;
    RETURN_IF_ERROR(Pause(pause));
    pause = std::min(2 * pause, kLongestPause);
  }
}

absl::Status S3Client::AbortUpload(std::string_view key, std::string_view upload_id) {
  Call call{
      .method = HttpMethod::kDelete, .key = key, .query = {{"uploadId", std::string(upload_id)}}};
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(std::string_view()));
  absl::Status status = Send(call).status();
  return absl::IsNotFound(status) && ReasonOf(status).empty() ? absl::OkStatus() : status;
}

absl::StatusOr<std::vector<UnfinishedUpload>> S3Client::ListUploads(std::string_view prefix) {
  std::vector<UnfinishedUpload> uploads;
  Call call;
  call.query = {{"prefix", std::string(prefix)}, {"uploads", ""}};
  ASSIGN_OR_RETURN(call.sha256, Sha256Of(std::string_view()));
  for (int page = 0; page < kMaxPages; ++page) {
    ASSIGN_OR_RETURN(const HttpAnswer answer, Send(call));
    ASSIGN_OR_RETURN(const XmlElement root, ParseXml(answer.body));
    for (const XmlElement& element : root.children) {
      if (element.name != "Upload") continue;
      UnfinishedUpload upload{.key = std::string(element.child_text("Key"))};
      ASSIGN_OR_RETURN(upload.upload_id, TokenIn(element, "UploadId"));
      if (upload.key.starts_with(prefix)) uploads.push_back(std::move(upload));
    }
    if (uploads.size() > kMaxUploads) break;
    if (root.child_text("IsTruncated") != "true") return uploads;
    const std::string_view key = root.child_text("NextKeyMarker");
    const std::string_view upload_id = root.child_text("NextUploadIdMarker");
    std::string& last_key = call.query["key-marker"];
    std::string& last_upload_id = call.query["upload-id-marker"];
    if (key.empty() || (key == last_key && upload_id == last_upload_id)) {
      return ListStandsStill("uploads");
    }
    last_key = key;
    last_upload_id = upload_id;
  }
  return absl::DataLossError("the server's list of uploads does not end");
}

}  // namespace profd::archive
