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

EVP_MD_CTX* MakeContext() {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  if (context == nullptr) throw std::bad_alloc();
  return context;
}

}  // namespace

Sha256::Sha256() : context_(MakeContext(), EVP_MD_CTX_free) {
  Check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::Update(std::span<const std::byte> bytes) {
  Check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

void Sha256::Update(std::string_view text) {
  Update(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

std::string Sha256::HexDigest() const {
  // Finishing a copy: the context itself takes nothing more once it is finished.
  const Sha256 finished;
  Check(EVP_MD_CTX_copy_ex(finished.context_.get(), context_.get()));
  std::array<unsigned char, 32> digest;
  Check(EVP_DigestFinal_ex(finished.context_.get(), digest.data(), nullptr));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace batchless::training
