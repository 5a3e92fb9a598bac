# frozen_string_literal: true

require "digest"
require "json"
require "openssl"
require "securerandom"
require "stringio"
require "zlib"

# Work for the processor. Ruby code can let others on with NeverBlock.pass; a
# single call into C cannot. The loops count their thread's processor time: where others use
# the processor too, the call takes as much longer as the gaps in it do.
WhatBlocks::Catalogue.define "Computing" do
  computes("Ruby code", "a loop of 0.5 s") do
    measure(nil) do
      ends = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + 0.5
      nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < ends
    end
  end
  computes("NeverBlock.pass", "in a loop of 0.5 s") do
    measure(nil) do
      ends = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + 0.5
      NeverBlock.pass while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < ends
    end
  end
  computes("Array#sort", "millions of floats") do
    random = Random.new(1)
    numbers = Array.new(size(2_000_000)) { random.rand }
    measure(Array) { numbers.sort }
  end
  computes("Regexp#match?", "much backtracking") do
    text = "a" * 34 + "bc"
    measure(false) { Array.new(size(1)) { /\A(?:(a|aa))*\1c\z/.match?(text) }.any? }
  end
  computes("Integer#/", "millions of digits") do
    dividend, divisor = 1 << size(47_500_000), (1 << size(22_000_000)) - 12_345
    measure(Integer) { dividend / divisor }
  end
  computes("Integer#pow", "a modulus of thousands of digits") do
    base, exponent, modulus = 3**4500, 7**size(4500), (1 << 13_000) + 1
    measure(Integer) { base.pow(exponent, modulus) }
  end
  computes("JSON.generate", "a large array of floats") do
    data = Array.new(size(500_000)) { |number| number * 1.1 }
    measure(String) { JSON.generate(data) }
  end
  computes("Marshal.dump", "a large array of hashes") do
    data = Array.new(size(400_000)) { |number| {"id" => number, "name" => "x" * 20} }
    measure(String) { Marshal.dump(data) }
  end
  computes("Zlib::Deflate.deflate", "a large string") do
    data = Random.new(1).bytes(size(20_000_000))
    measure(String) { Zlib::Deflate.deflate(data) }
  end
  computes("Zlib::Inflate.inflate", "a large string") do
    data = Zlib::Deflate.deflate("abcdefghij" * size(30_000_000), 1)
    measure(String) { Zlib::Inflate.inflate(data) }
  end
  computes("Zlib::GzipWriter#write", "a large string") do
    data = Random.new(1).bytes(size(20_000_000))
    measure(Integer, Zlib::GzipWriter.new(StringIO.new)) { |gzip| gzip.write(data) }
  end
  computes("Zlib::GzipReader#read", "a large string") do
    data = Zlib.gzip("abcdefghij" * size(30_000_000), level: 1)
    measure(String, Zlib::GzipReader.new(StringIO.new(data))) { |gzip| gzip.read }
  end
  computes("Digest::SHA256.digest", "a large string") do
    data = "x" * size(100_000_000)
    measure(String) { Digest::SHA256.digest(data) }
  end
  computes("OpenSSL::KDF.pbkdf2_hmac", "many iterations") do
    iterations = size(1_500_000)
    measure(String) { OpenSSL::KDF.pbkdf2_hmac("a", salt: "b", iterations:, length: 32, hash: "SHA256") }
  end
  computes("OpenSSL::KDF.scrypt", "a high cost") do
    cost = size(131_072)
    measure(String) { OpenSSL::KDF.scrypt("a", salt: "b", N: cost, r: 8, p: 1, length: 32) }
  end
  computes("OpenSSL::PKey::RSA.new", "some keys of 2,048 bits") do
    measure(Array) { Array.new(size(5)) { OpenSSL::PKey::RSA.new(2048) } }
  end
  computes("IO::Buffer#copy", "hundreds of megabytes") do
    from, to = IO::Buffer.new(size(400 << 20)), IO::Buffer.new(size(400 << 20))
    measure(Integer) { to.copy(from) }
  end
  quick("Random.urandom") { measure(String) { Random.urandom(64) } }
  quick("SecureRandom.hex") { measure(String) { SecureRandom.hex } }
  quick("GC.start") { measure(nil) { GC.start } }
end
