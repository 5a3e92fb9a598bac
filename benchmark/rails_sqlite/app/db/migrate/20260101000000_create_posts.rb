class CreatePosts < ActiveRecord::Migration[8.1]
  def change
    create_table :posts do |t|
      t.string :title
      t.text :body
      t.integer :views, default: 0

      t.timestamps
    end

    create_table :comments do |t|
      t.belongs_to :post
      t.text :text

      t.timestamps
    end
  end
end
