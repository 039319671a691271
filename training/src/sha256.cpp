#include "batchless/training/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <new>
#include <stdexcept>

namespace batchless::training {
namespace {

// libcrypto refuses only where it has no memory or no such algorithm.
void Check(int result) {
  if (result != 1) throw std::runtime_error("libcrypto cannot compute SHA-256");
}

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();

  Context() {
    if (evp == nullptr) throw std::bad_alloc();
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  Check(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr));
}

Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  Check(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()));
}

void Sha256::Update(std::string_view text) {
  Update(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

std::string Sha256::HexDigest() const {
  // Finishing a copy: the context itself takes nothing more once it is finished.
  const Context finished;
  Check(EVP_MD_CTX_copy_ex(finished.evp, context_->evp));
  std::array<unsigned char, 32> digest;
  Check(EVP_DigestFinal_ex(finished.evp, digest.data(), nullptr));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace batchless::training
