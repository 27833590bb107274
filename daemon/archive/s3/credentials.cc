#include "daemon/archive/s3/credentials.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "daemon/archive/s3/http.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/text_file.h"

namespace profd::archive {
namespace {

constexpr size_t kMaxKeyBytes = 16 << 10;  // Session tokens take a few KiB.
constexpr size_t kMaxFileBytes = 1 << 20;
constexpr char kMetadataService[] = "http://169.254.169.254";
constexpr absl::Duration kMetadataTimeout = absl::Seconds(2);
constexpr absl::Duration kRenewBefore = absl::Minutes(5);
constexpr size_t kMaxMetadataBytes = 64 << 10;

// Anything else would end a header, or start another one.
bool IsKey(std::string_view key) {
  return !key.empty() && key.size() <= kMaxKeyBytes &&
         std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; });
}

bool AreUsable(const Credentials& credentials) {
  return IsKey(credentials.access_key) && IsKey(credentials.secret_key) &&
         (credentials.session_token.empty() || IsKey(credentials.session_token));
}

absl::StatusOr<std::string> AskMetadata(HttpSession& session, HttpRequest request) {
  request.max_answer_bytes = kMaxMetadataBytes;
  ASSIGN_OR_RETURN(HttpAnswer answer, session.Send(request));
  if (answer.status != 200) {
    return absl::UnavailableError(
        StrCat("the instance's metadata service answers ", answer.status));
  }
  return std::move(answer.body);
}

std::string TextOf(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

absl::StatusOr<Credentials> ParseCredentialsFile(std::string_view text, std::string_view profile) {
  Credentials found;
  bool in_profile = false;
  bool has_profile = false;
  // Other tools' lines are skipped, so no line is wrong; comments with ';' are among them.
  const auto take = [&](std::string_view line, int /*number*/) {
    if (line.front() == '[') {
      std::string_view name = Trimmed(line.substr(1, line.find(']') - 1));
      if (name.starts_with("profile ")) name = Trimmed(name.substr(8));
      in_profile = name == profile;
      has_profile |= in_profile;
    } else if (const auto setting = SplitSetting(line); in_profile && setting.has_value()) {
      const auto& [key, value] = *setting;
      if (key == "aws_access_key_id") found.access_key = value;
      if (key == "aws_secret_access_key") found.secret_key = value;
      if (key == "aws_session_token") found.session_token = value;
    }
    return absl::OkStatus();
  };
  ForEachLine(text, "", Comments::kWholeLines, take).IgnoreError();
  if (!has_profile) {
    return absl::InvalidArgumentError(
        StrCat("there is no profile '", ForDisplay(profile, 64), "' in the credentials file"));
  }
  if (!AreUsable(found)) {
    return absl::InvalidArgumentError(
        StrCat("profile '", ForDisplay(profile, 64),
               "' of the credentials file needs aws_access_key_id and aws_secret_access_key"));
  }
  return found;
}

CredentialSource::CredentialSource(Options options, Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

absl::StatusOr<Credentials> CredentialSource::Get() {
  if (!options_.file.empty()) return FromFile();
  if (std::optional<Credentials> found = FromEnvironment()) {
    if (AreUsable(*found)) return *std::move(found);
    return absl::InvalidArgumentError(
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must both be set, to printable text");
  }
  if (role_.has_value() && clock_.Now() < role_->renew) return role_->credentials;
  return FromRole();
}

absl::StatusOr<Credentials> CredentialSource::FromFile() const {
  const absl::StatusOr<std::string> text = ReadUpTo(kMaxFileBytes, options_.file);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        StrCat("cannot read the credentials in '", ForDisplay(options_.file.string(), 200), "'"));
  }
  absl::StatusOr<Credentials> found = ParseCredentialsFile(*text, options_.profile);
  if (found.ok()) return found;
  return absl::InvalidArgumentError(
      StrCat(ForDisplay(options_.file.string(), 200), ": ", FromAbsl(found.status().message())));
}

std::optional<Credentials> CredentialSource::FromEnvironment() const {
  const auto value = [this](const char* name) {
    return options_.getenv ? options_.getenv(name).value_or("") : std::string();
  };
  Credentials found = {.access_key = value("AWS_ACCESS_KEY_ID"),
                       .secret_key = value("AWS_SECRET_ACCESS_KEY"),
                       .session_token = value("AWS_SESSION_TOKEN")};
  if (found.access_key.empty() && found.secret_key.empty()) return std::nullopt;
  return found;
}

// Instance Metadata Service, version 2: a token for the session, the role's name, its credentials.
absl::StatusOr<Credentials> CredentialSource::FromRole() {
  const auto none = [](const absl::Status& why) -> absl::Status {
    if (absl::IsCancelled(why)) return why;
    return absl::NotFoundError(
        StrCat("no credentials for object storage: name a file (archive-credentials), set "
               "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this instance a role (",
               FromAbsl(why.message()), ")"));
  };
  std::string service = kMetadataService;
  if (options_.getenv) {
    service = options_.getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or(service);
    if (options_.getenv("AWS_EC2_METADATA_DISABLED") == "true") {
      return none(absl::NotFoundError("AWS_EC2_METADATA_DISABLED is true"));
    }
  }
  while (service.ends_with('/')) service.pop_back();
  HttpSession session({.authorities = {},
                       .connect_timeout = kMetadataTimeout,
                       .stall_timeout = kMetadataTimeout,
                       .use_proxy = false,
                       .stop = options_.stop});
  const absl::StatusOr<std::string> token =
      AskMetadata(session, {.method = HttpMethod::kPut,
                            .url = service + "/latest/api/token",
                            .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"}});
  if (!token.ok()) return none(token.status());
  if (!IsKey(*token)) return none(absl::UnavailableError("its token is not one"));
  const std::string header = StrCat("X-aws-ec2-metadata-token: ", *token);
  const std::string roles = service + "/latest/meta-data/iam/security-credentials/";
  const absl::StatusOr<std::string> names =
      AskMetadata(session, {.url = roles, .headers = {header}});
  if (!names.ok()) return none(names.status());
  const std::string role(Trimmed(names->substr(0, names->find('\n'))));
  const bool is_name = IsKey(role) && role.find('/') == std::string::npos;
  if (!is_name) return none(absl::UnavailableError("it names no role"));
  const absl::StatusOr<std::string> answer =
      AskMetadata(session, {.url = roles + role, .headers = {header}});
  if (!answer.ok()) return none(answer.status());
  const nlohmann::json found = nlohmann::json::parse(*answer, nullptr, /*allow_exceptions=*/false);
  if (!found.is_object()) return none(absl::UnavailableError("its answer is not JSON"));
  Temporary temporary;
  temporary.credentials = {.access_key = TextOf(found, "AccessKeyId"),
                           .secret_key = TextOf(found, "SecretAccessKey"),
                           .session_token = TextOf(found, "Token")};
  absl::Time expiration;
  if (!AreUsable(temporary.credentials) ||
      !absl::ParseTime(absl::RFC3339_full, TextOf(found, "Expiration"), &expiration, nullptr)) {
    return none(absl::UnavailableError("its answer has no credentials"));
  }
  temporary.renew = expiration - kRenewBefore;
  role_ = std::move(temporary);
  return role_->credentials;
}

}  // namespace profd::archive
