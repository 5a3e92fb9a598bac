# frozen_string_literal: true

require "openssl"
require "zlib"

# What NeverBlock offers for the rest.
WhatBlocks::Catalogue.define "Ways out" do
  wait = WhatBlocks::Stage::WAIT

  waits("NeverBlock.offload", "Thread.stop") do
    measure(nil) do
      NeverBlock.offload do
        thread = Thread.current
        later { thread.wakeup }
        Thread.stop
      end
    end
  end
  waits("NeverBlock.offload", "Ractor#value") do
    ractor = lasting_ractor
    measure(1) { NeverBlock.offload { ractor.respond_to?(:value) ? ractor.value : ractor.take } }
  end
  computes("NeverBlock.offload", "OpenSSL::PKey::RSA.new") do
    measure(Array) { NeverBlock.offload { Array.new(size(5)) { OpenSSL::PKey::RSA.new(2048) } } }
  end
  computes("NeverBlock.offload", "Zlib::Deflate.deflate") do
    data = Random.new(1).bytes(size(20_000_000))
    measure(String) { NeverBlock.offload { Zlib::Deflate.deflate(data) } }
  end
  waits("NeverBlock.timeout", "sleeping block") do
    measure(NeverBlock::TimeoutError) { raised { NeverBlock.timeout(wait) { sleep 5 } } }
  end
  waits("NeverBlock.neverblock", "false, asked to block") { measure(Integer) { NeverBlock.neverblock(false) { sleep wait } } }
end
