# frozen_string_literal: true

require "rack/files"
require "rack/mime"
require "rack/request"
require "rack/utils"
require_relative "runtime"

module NeverBlock
  # Serves the assets of other releases of the app, while old and new workers run side by side: a page of the old
  # release asks a worker of the new one for its assets, and the other way round. Rack middleware.
  #
  #   use NeverBlock::ReleaseAssets, releases: "/var/www/shop/releases/*/public", prefix: "/assets", keep: 3
  #
  # It looks only for names with a digest, which mean the same in each release: `application-4f2a91c0.css`, as Propshaft
  # and Sprockets write them. What the current release has is left to the app, or to what serves its files.
  #
  # `release_assets/` has the parts:
  #
  #   folders.rb    where the releases are, and which of them has a file
  class ReleaseAssets
    require_relative "release_assets/folders"

    HEADERS = {"cache-control" => "public, max-age=31536000, immutable", "vary" => "accept-encoding"}.freeze
    # Names of files in order of preference, by the content coding of what is in them.
    CODINGS = {"br" => ".br", "gzip" => ".gz", "identity" => ""}.freeze
    COUNT = ValueType.count(least: 1)
    private_constant :HEADERS, :CODINGS, :COUNT

    # @param app [#call]
    # @param releases [String, Array<String>] absolute paths of the releases' public folders, as for Dir.glob
    # @param prefix [String] of the assets' paths, in URLs and in the folders
    # @param keep [Integer] so many releases are looked at, beside the current one: the newest ones
    # @param current [String] the public folder of this release
    # @raise [ConfigurationError]
    def initialize(app, releases:, prefix: "/assets", keep: 3, current: "public")
      @app = app
      unless String === prefix && %r{\A(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+\z}.match?(prefix)
        raise ConfigurationError, "ReleaseAssets: prefix: #{prefix.inspect} is not a path such as \"/assets\""
      end
      @start = "#{prefix}/"
      @folders = Folders.new(releases, keep: count(keep), current:)
      @files = Rack::Files.new(nil, HEADERS)
    end

    # @param env [Hash] Rack's
    # @return [Array(Integer, Hash, #each)]
    def call(env)
      path = env["PATH_INFO"]
      return @app.call(env) unless path.start_with?(@start) && asks?(env) && Folders.asset?(path)
      folder = @folders.with(path)
      (folder && serve(env, folder, path)) || @app.call(env)
    end

    private

    def asks?(env) = env["REQUEST_METHOD"] == "GET" || env["REQUEST_METHOD"] == "HEAD"

    # @return [Array, nil] nil: the file is gone
    def serve(env, folder, path)
      request = Rack::Request.new(env)
      coding, file = choose(request, folder, path)
      return if file.nil?
      status, headers, body = @files.serving(request, file)
      return [status, headers, body] unless status == 200
      headers = headers.merge("content-type" => Rack::Mime.mime_type(File.extname(path)))
      headers["content-encoding"] = coding unless coding == "identity"
      [status, headers, body]
    rescue SystemCallError
      nil # a deployment has just removed the release
    end

    # Parts of a file are those of the file itself.
    def choose(request, folder, path)
      return ["identity", folder.file(path)] if request.get_header("HTTP_RANGE")
      files = CODINGS.transform_values { |ending| folder.file("#{path}#{ending}") }.compact
      coding = Rack::Utils.select_best_encoding(files.keys, request.accept_encoding)
      [coding, files[coding]]
    end

    def count(value) = COUNT.setting(value) { "ReleaseAssets: keep:" }
  end
end
