# frozen_string_literal: true

module NeverBlock
  class Server
    # Those of `neverblock proxy`. The server itself has no use for them.
    module Directives
      topic "As a reverse proxy"

      directive :upstream, value: [ValueType.text("an address, as \"http://127.0.0.1:3000\""), [].freeze], many: true,
        example: 'upstream "http://10.0.0.5:3000", "http://10.0.0.6:3000"', says: <<~TEXT
          Where `neverblock proxy` sends requests: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`; may be
          repeated. A reload takes changes over without losing a request. It means nothing to `neverblock serve`.
        TEXT

      keywords = ValueType.new("options by their names, as {host: :upstream}") do |value|
        (Hash === value && value.each_key.all?(Symbol)) ? value : ValueType::REFUSED
      end

      directive :proxy, cache: [ValueType.text("a store, as \"memory:256m\"").optional, nil],
        collapse: [ValueType.one_of(true, false, :same_url).optional, nil], ttl: [ValueType.seconds.optional, nil],
        options: [keywords, {}.freeze], cache_options: [keywords, {}.freeze],
        example: 'proxy cache: "memory:256m", options: {timeouts: {first_byte: 30}}', says: <<~TEXT
          How `neverblock proxy` serves its upstreams: with a cache in that store; whether identical requests wait for
          one response (with a cache they do), `:same_url` for all requests of a URL; for how many seconds a response
          is stored that does not say so itself. With any of these three there is a cache. `options:` are those of
          [NeverBlock::Proxy](proxy.md#options), `cache_options:` those of [NeverBlock::Cache](cache.md#options).
        TEXT
    end
  end
end
