# frozen_string_literal: true

require_relative "figures"

module NeverBlock
  class Server
    class Metrics
      # The figures of an HTTP cache in front of the app.
      #
      #   CACHE.each({entries: 12, requests: {hit: 90}}) { |name, type, help, value, labels| … }
      #   # "cache_requests_total", :counter, "Requests …", 90, {outcome: :hit}
      # @api private
      CACHE = Figures.new("cache", :uncollapsible, [
        ["requests_total", :counter, "Requests by what the cache has done.", [:requests]],
        ["fetches", :gauge, "Fetches that are under way.", [:fetching]],
        ["waiting", :gauge, "Requests that have joined a fetch under way.", [:waiting]],
        ["uncollapsible", :gauge, "URLs whose responses are for one request each.", [:uncollapsible]],
        ["unattended", :gauge, "Fetches that go on without a client.", [:unattended]],
        ["released", :gauge, "URLs whose requests call the app themselves.", [:released]],
        ["lease_waits_total", :counter, "Fetches that have waited for another host.", [:lease_waits]],
        ["entries", :gauge, "Responses that are stored.", [:entries]],
        ["keys", :gauge, "URLs of which responses are stored.", [:keys]],
        ["bytes", :gauge, "Bytes of stored responses.", [:bytes]],
        ["bytes_limit", :gauge, "Bytes that stored responses may have.", [:limit]],
        ["evicted_total", :counter, "Stored responses that made room for others.", [:evicted]],
        ["refused_total", :counter, "Responses that the store has not taken: too large, or purged during their fetch.",
          [:refused]],
        ["store_errors_total", :counter, "Errors of the store.", [:errors]]
      ])
    end
  end
end
