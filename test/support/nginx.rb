# frozen_string_literal: true

require "fileutils"
require_relative "peer"

module NeverBlockTest
  # Writes the configuration of an nginx for a test, which runs in the foreground by one process.
  #
  #   Peer.start do |folder|
  #     Nginx.write(folder, "server { listen 127.0.0.1:#{port}; root #{folder}; }")
  #     Nginx.command(folder)
  #   end
  module Nginx
    # @return [Array<String>] that starts it
    def self.command(folder) = [Peer.find("nginx"), "-e", "stderr", "-p", folder, "-c", "nginx.conf"]

    # @param folder [String] of its files, which it may read
    # @param http [String] what is in the block `http`
    # @param level [String] of its messages on standard error
    # @return [void]
    def self.write(folder, http, level: "crit")
      FileUtils.chmod_R("a+rX", folder)
      temporary = %w[client_body proxy fastcgi uwsgi scgi].map { |name| "#{name}_temp_path #{folder}/#{name};" }
      File.write("#{folder}/nginx.conf", <<~NGINX)
        daemon off;
        pid #{folder}/nginx.pid;
        error_log stderr #{level};
        #{"user root;" if Process.uid.zero?}
        events {}
        http {
          access_log off;
          #{temporary.join("\n")}
          #{http}
        }
      NGINX
    end
  end
end
