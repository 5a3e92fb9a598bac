# frozen_string_literal: true

module NeverBlock
  class Railtie
    # Finds out which release of the app this is, for {Cache.default_revision}.
    #
    #   Revision.find(root: Rails.root)    # => "4f2a91c"; nil: nothing says so
    # @api private
    module Revision
      # Ours; then what deployments set, by Kamal, Heroku, Render and build scripts.
      VARIABLES = %w[
        NEVERBLOCK_REVISION KAMAL_VERSION HEROKU_SLUG_COMMIT HEROKU_BUILD_COMMIT RENDER_GIT_COMMIT GIT_REVISION
        SOURCE_VERSION
      ].freeze
      # Capistrano writes it into each release.
      FILE = "REVISION"
      LONGEST = 1_000
      private_constant :FILE, :LONGEST

      class << self
        # @param root [Pathname, String] the app's folder
        # @param env [Hash{String=>String}]
        # @return [String, nil] the first text that can be a revision
        def find(root:, env: ENV)
          texts = VARIABLES.lazy.map { |name| env[name] } + [root].lazy.map { |folder| file(folder) }
          texts.map { |text| text.to_s.strip }.find { |text| Cache::Revision.valid?(text) }
        end

        private

        def file(folder)
          File.read(File.join(folder, FILE), LONGEST)
        rescue SystemCallError
          nil
        end
      end
    end
  end
end
