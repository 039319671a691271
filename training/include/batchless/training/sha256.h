// Digests of data and weights: SHA-256 (FIPS 180-4), of bytes that come piece by piece.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // libcrypto's EVP_MD_CTX

namespace batchless::training {

class Sha256 {
 public:
  Sha256();

  /// Appends bytes; how they are cut into pieces makes no difference.
  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text);

  /// 64 lower-case hexadecimal digits for everything appended so far; more may be appended afterwards.
  std::string HexDigest() const;

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace batchless::training

// Example
//   Sha256 digest;
//   digest.Update("a");
//   digest.Update("bc");
//   CHECK(digest.HexDigest() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
//   digest.Update("d");
//   CHECK(digest.HexDigest() == "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589");
